"""Bloom filters on the elements of arrays of DOUBLE."""

import pyarrow as pa
import pyarrow.parquet as pq

import skipstone as ss


def test_bloom_filters_of_doubles(tmp_path):
    """Filters hash -0.0 and 0.0 differently, and NaN not at all."""
    for i, values in enumerate(([-0.0, 5.0], [0.0, 5.0], [1.0, float("nan")])):
        filters = {"fs.list.element": {"ndv": 10, "fpp": 1e-5}}
        table = pa.table({"fs": [values, [-7.0]]})
        pq.write_table(table, tmp_path / f"{i}.parquet", bloom_filter_options=filters)
    for where, files, rows in (
        ("array_contains(fs, 0.0D)", "0 1", 2),
        ("array_contains(fs, -0.0D)", "0 1", 2),
        ("array_contains(fs, 5)", "0 1", 2),
        ("exists(fs, v -> v IN (1.0D, 2.0D))", "2", 1),
        ("exists(fs, v -> v = double('NaN'))", "0 1 2", 1),
        ("array_contains(fs, 3.0D)", "", 0),
    ):
        plan = ss.scan_parquet(tmp_path).plan(where)
        assert " ".join(sorted(f[-9] for f in plan.files)) == files
        assert plan.to_arrow().num_rows == rows
