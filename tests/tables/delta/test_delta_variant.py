"""VARIANT columns of Delta tables, as Spark 4.1 with Delta 4.4 writes them."""

import json
import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skipstone as ss
from skipstone.ir.errors import SourceError

STORED = pa.struct(
    [
        pa.field("value", pa.binary(), False),
        pa.field("metadata", pa.binary(), False),
    ]
)
SHREDDED = pa.struct([*STORED, pa.field("typed_value", pa.int64())])
ONE = {"metadata": b"\x01\x01\x00\x01a", "value": b"\x02\x01\x00\x00\x02\x0c\x01"}
FIELDS = [
    {"name": "id", "type": "integer", "nullable": True, "metadata": {}},
    {"name": "v", "type": "variant", "nullable": True, "metadata": {}},
    {
        "name": "st",
        "type": {
            "type": "struct",
            "fields": [{"name": "w", "type": "variant", "nullable": True, "metadata": {}}],
        },
        "nullable": True,
        "metadata": {},
    },
]


def make(folder, stored, one):
    os.makedirs(folder / "_delta_log")
    log = [
        {
            "protocol": {
                "minReaderVersion": 3, "minWriterVersion": 7,
                "readerFeatures": ["variantType"], "writerFeatures": ["variantType"],
            }
        },
        {
            "metaData": {
                "id": "t", "format": {"provider": "parquet"}, "partitionColumns": [],
                "schemaString": json.dumps({"type": "struct", "fields": FIELDS}),
                "configuration": {},
            }
        },
    ]  # fmt: skip
    for i, value in enumerate((one, None)):
        path = folder / f"{i}.parquet"
        rows = pa.table(
            {
                "id": pa.array([2 * i, 2 * i + 1], pa.int32()),
                "v": pa.array([value, value], stored),
                "st": pa.array([{"w": value}, None], pa.struct([("w", stored)])),
            }
        )
        pq.write_table(rows, path)
        nulls = {"id": 0, "v": 2 * (value is None), "st": {"w": 1 + (value is None)}}
        stats = {"numRecords": 2, "minValues": {"id": 2 * i}, "maxValues": {"id": 2 * i + 1}}
        log.append({
            "add": {
                "path": path.name, "partitionValues": {}, "size": path.stat().st_size,
                "modificationTime": 1, "dataChange": True,
                "stats": json.dumps(stats | {"nullCount": nulls}),
            }
        })  # fmt: skip
    (folder / "_delta_log" / f"{0:020d}.json").write_text("\n".join(map(json.dumps, log)))
    return ss.scan_delta(str(folder))


@pytest.mark.parametrize(
    ("condition", "ids", "files"),
    [
        (None, [0, 1, 2, 3], 2),
        ("id < 1", [0], 1),
        ("v IS NULL", [2, 3], 1),
        ("v IS NOT NULL", [0, 1], 1),
        ("st IS NULL", [1, 3], 2),
        ("st.w IS NULL", [1, 2, 3], 2),
    ],
)
def test_variants_are_read_and_tested_for_null(tmp_path, condition, ids, files):
    plan = make(tmp_path, STORED, ONE).plan(condition)
    rows = plan.to_arrow().sort_by("id")
    assert rows.column("id").to_pylist() == ids
    assert rows.column("v").to_pylist() == [ONE if i < 2 else None for i in ids]
    assert len(plan.files) <= files


def test_shredded_variants_are_left_out_or_refused(tmp_path):
    table = make(tmp_path, SHREDDED, ONE | {"typed_value": 1})
    with pytest.raises(SourceError, match=r"VARIANT column is stored as .*typed_value.*columns="):
        table.plan("id = 0").to_arrow()
    assert table.plan("id = 0", columns=["id"]).to_arrow().num_rows == 1
