"""Iceberg tables of version 3 with VARIANT columns, as Spark 4.1 with Iceberg 1.12 writes them."""

import gzip
import json
import pickle
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import IntegerType, NestedField, StringType

import skipstone as ss
from skipstone.ir.errors import SourceError, UnsupportedForm
from tests.support.tables.iceberg_tables import commit, data_file, make, with_ids

STORED = pa.struct(
    [pa.field("metadata", pa.binary(), False), pa.field("value", pa.binary(), False)]
)
ONE = {"metadata": b"\x01\x01\x00\x01a", "value": b"\x02\x01\x00\x00\x02\x0c\x01"}
ADDED = [
    {"id": 10, "name": "v", "required": False, "type": "variant"},
    {
        "id": 11, "name": "st", "required": False,
        "type": {
            "type": "struct",
            "fields": [
                {"id": 12, "name": "a", "required": False, "type": "int"},
                {"id": 13, "name": "w", "required": False, "type": "variant"},
            ],
        },
    },
    {
        "id": 14, "name": "l", "required": False,
        "type": {"type": "list", "element-id": 15, "element": "variant", "element-required": False},
    },
    {
        "id": 16, "name": "m", "required": False,
        "type": {
            "type": "map", "key-id": 17, "key": "string", "value-id": 18, "value": "variant",
            "value-required": False,
        },
    },
]  # fmt: skip


@pytest.fixture(scope="module")
def metadata(tmp_path_factory):
    """A metadata file: a real table of three files, to which the columns are added."""
    folder = tmp_path_factory.mktemp("variants")
    schema = Schema(
        NestedField(1, "id", IntegerType()), NestedField(2, "s", StringType()),
        NestedField(3, "p", IntegerType()),
    )  # fmt: skip
    source = make(folder, schema, PartitionSpec(PartitionField(3, 1000, IdentityTransform(), "p")))
    inner = pa.struct(list(with_ids([("a", pa.int32(), 12), ("w", STORED, 13)])))
    arrow = with_ids([("id", pa.int32(), 1), ("s", pa.string(), 2), ("p", pa.int32(), 3),
                      ("v", STORED, 10), ("st", inner, 11)])  # fmt: skip
    files = []
    for k in range(3):
        value = None if k == 1 else ONE
        rows = pa.table(
            [[2 * k, 2 * k + 1], [f"s{k}"] * 2, [k] * 2, [value] * 2, [{"a": k, "w": value}, None]],
            schema=arrow,
        )
        pq.write_table(rows, folder / f"{k}.parquet")
        low, high = ({1: (2 * k + i).to_bytes(4, "little")} for i in range(2))
        counts = dict.fromkeys((1, 2, 3, 10, 12, 13), 2)
        files.append(
            data_file(
                f"{folder}/{k}.parquet", (k,), rows=2, lower_bounds=low, upper_bounds=high,
                value_counts=counts, null_value_counts={1: 0, 2: 0, 3: 0, 10: 0, 12: 1, 13: 0},
            )
        )  # fmt: skip
    found = json.loads(
        Path(re.sub("^file://", "", commit(source, files).metadata_location)).read_text()
    )
    for part in found["schemas"]:
        part["fields"] += ADDED
    found |= {"format-version": 3, "last-column-id": 18, "next-row-id": 6}
    out = folder / "v3.metadata.json"
    out.write_text(json.dumps(found))
    return str(out)


CASES = [
    ("id < 3", [0, 1, 2], 2), ("p = 2", [4, 5], 1), ("s = 's1' AND id > 2", [3], 2),
    ("st.a = 2", [4], 3), ("st.a IS NULL", [1, 3, 5], 3), ("v IS NULL", [2, 3], 3),
    ("v IS NOT NULL", [0, 1, 4, 5], 3), ("st.w IS NULL", [1, 2, 3, 5], 3),
    ("v IS NULL AND p = 0", [], 1), ("l IS NULL AND id = 5", [5], 1),
]  # fmt: skip


@pytest.mark.parametrize("where, ids, files", CASES, ids=[c[0] for c in CASES])
def test_other_columns_work(metadata, where, ids, files):
    """The format defines no null counts of variants, so NULL tests read rows."""
    for table in (ss.scan_iceberg(metadata), pickle.loads(pickle.dumps(ss.scan(metadata)))):
        plan = table.plan(where)
        rows = plan.to_arrow().sort_by("id")
        assert len(plan.files) == files
        assert rows["id"].to_pylist() == ids
        assert rows["v"].to_pylist() == [None if i in (2, 3) else ONE for i in ids]
        assert rows["l"].null_count == rows["m"].null_count == len(ids)
        assert plan.only([0], ["id"]) is not None


@pytest.mark.parametrize("where", ["v = 1", "v.value = X'00'", "v.a IS NULL", "st.w > 'a'"])
def test_tests_of_variants_are_refused_by_name(metadata, where):
    plan = ss.scan_iceberg(metadata).plan(where)
    assert len(plan.files) == 3
    with pytest.raises(UnsupportedForm, match="VARIANT"):
        plan.to_arrow()


def test_packed_metadata_and_other_unknown_types(metadata, tmp_path):
    text = Path(metadata).read_text()
    packed = tmp_path / "v3.gz.metadata.json"
    packed.write_bytes(gzip.compress(text.encode()))
    assert ss.scan_iceberg(str(packed)).plan("id = 5").to_arrow().num_rows == 1
    other = tmp_path / "v4.metadata.json"
    other.write_text(text.replace('"variant"', '"quaternion"'))
    with pytest.raises(SourceError, match=r"metadata cannot be read .*quaternion"):
        ss.scan_iceberg(str(other))


def test_a_column_may_be_called_variant(metadata, tmp_path):
    found = json.loads(Path(metadata).read_text())
    for part in found["schemas"]:
        part["fields"][0] |= {"name": "variant", "doc": "variant"}
    where = tmp_path / "v5.metadata.json"
    where.write_text(json.dumps(found | {"properties": {"type": "variant"}}))
    table = ss.scan_iceberg(str(where))
    assert table.plan("variant = 3").to_arrow()["variant"].to_pylist() == [3]
    assert table.metadata.properties["type"] == "variant"


# Types as Iceberg's library writes them, without quotes, which pyiceberg 0.12 expects.
PLACES = ["geometry", "geometry(OGC:CRS84)", "geometry(srid:4326)", "geography",
          "geography(OGC:CRS84)", "geography(OGC:CRS84, vincenty)",
          "geometry('EPSG:3857')"]  # fmt: skip


@pytest.mark.parametrize("kind", PLACES)
def test_places(metadata, tmp_path, kind):
    """Geometries and geographies are binary, and the files lack them."""
    found = json.loads(Path(metadata).read_text())
    for part in found["schemas"]:
        part["fields"] = [f for f in part["fields"] if f.get("type") != "variant"]
        part["fields"].append({"id": 30, "name": "g", "required": False, "type": kind})
    where = tmp_path / "v6.metadata.json"
    where.write_text(json.dumps(found))
    table = ss.scan_iceberg(str(where))
    assert table.schema.field("g").type == pa.binary()
    assert table.plan("id = 5").to_arrow().num_rows == 1
    assert table.plan("g IS NULL").to_arrow().num_rows == 6
