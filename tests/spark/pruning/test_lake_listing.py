"""The files that Delta or Iceberg selected for a scan: judged only where the table knows them."""

import datetime as dt
import json

import deltalake
import numpy as np
import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

import skipstone as ss
from skipstone.bindings.filters.scan import DynamicFilters
from skipstone.bindings.predicates.predicate import PruningPredicate
from skipstone.bindings.predicates.sql import parse
from skipstone.bindings.spark.pruning.lake_listing import (
    LakeListing,
    delta_listing,
    iceberg_listing,
)
from skipstone.bindings.spark.pruning.scan_files import UnjudgedFiles
from skipstone.bindings.tables.iceberg.fields import ids_of
from skipstone.ir.errors import UnsupportedForm
from skipstone.ir.session import Session
from tests.support.tables.delta_log import Log, Written, delta_schema
from tests.support.tables.iceberg_tables import append, deletion_vector, make

SCHEMA = pa.schema([("x", pa.int64()), ("s", pa.string())])
IDS = [NestedField(1, "x", LongType()), NestedField(2, "s", StringType())]


def rows(first):
    return pa.table({"x": range(first, first + 10), "s": [f"s{i}" for i in range(10)]}, SCHEMA)


def of_delta(folder, change):
    for first in (0, 10, 20):
        deltalake.write_deltalake(folder, rows(first), mode="append")
    table = deltalake.DeltaTable(folder)
    adds = pa.table(table.get_add_actions(flatten=True)).sort_by("min.x").to_pylist()
    files = [[a["path"], a["size_bytes"], a["modification_time"], ""] for a in adds]
    head = [f"file:{folder}", table.version(), table.metadata().id]
    change(head, files)
    cells = [*head, *(cell for file in files for cell in file)]
    return delta_listing("".join(f"{cell}\0" for cell in cells), pa.schema([]))


def of_iceberg(folder, change, dead=()):
    table = make(folder, Schema(*IDS))
    for first in (0, 10, 20):
        append(table, rows(first))
    files = sorted((task.file.lower_bounds[1], task.file) for task in table.scan().plan_files())
    files = [[f.file_path, f.file_size_in_bytes] for _, f in files]
    if dead:
        table = deletion_vector(table, files[1][0], dead)
    schema = json.loads(table.schema().model_dump_json(by_alias=True))
    head = [table.metadata_location, table.current_snapshot().snapshot_id, schema]
    change(head, files)
    head[2] = json.dumps(head[2])
    cells = [*head, *(cell for file in files for cell in file)]
    return iceberg_listing("".join(f"{cell}\0" for cell in cells))


LAKES = pytest.mark.parametrize("listed", [of_delta, of_iceberg])


def predicate(text, schema=SCHEMA):
    return PruningPredicate(parse(text)[0], schema)


def kept(listing, text):
    every = np.ones(len(listing), np.bool_)
    return listing.keep_mask(predicate(text), every, case_sensitive=True).tolist()


@LAKES
def test_known_files_are_judged(listed, tmp_path):
    listing = listed(str(tmp_path), lambda head, files: None)
    assert kept(listing, "x = 15") == [False, True, False]
    assert kept(listing, "x > 100") == [False] * 3
    assert listing.bounds("x", np.ones(3, np.bool_)).spread() == pytest.approx(1 / 3, rel=0.01)
    assert listing.bounds("s", np.ones(3, np.bool_)).spread() == 1


@LAKES
@pytest.mark.parametrize("cell", [0, 1])
def test_files_that_the_table_does_not_know_stay(listed, tmp_path, cell):
    def change(head, files):
        files[0][cell] = "other.parquet" if cell == 0 else files[0][cell] + 1

    listing = listed(str(tmp_path), change)
    assert kept(listing, "x = 15") == [True, True, False]
    assert listing.bounds("x", np.ones(3, np.bool_)).spread() == 1
    with pytest.raises(UnsupportedForm):
        listing.rows(predicate("x = 15"), np.ones(3, np.bool_), ["x"], case_sensitive=False)


def test_deltas_time_and_vector_must_be_equal(tmp_path):
    def change(head, files):
        files[0][2] += 1
        files[2][3] = "uab@1"

    assert kept(of_delta(str(tmp_path), change), "x = 15") == [True, True, True]


@LAKES
def test_only_the_candidates_are_read(listed, tmp_path):
    listing = listed(str(tmp_path), lambda head, files: None)
    first = np.array([True, False, False])
    assert listing.rows(predicate("x % 5 = 0"), first, ["x"], case_sensitive=False)[
        "x"
    ].to_pylist() == [0, 5]
    assert listing.rows(predicate("x > 12"), first, ["x"], case_sensitive=False).num_rows == 0


def test_another_table_is_not_judged(tmp_path):
    def change(head, files):
        head[2] = "another"

    with pytest.raises(UnjudgedFiles, match="not that of the table"):
        of_delta(str(tmp_path), change)


def test_other_columns_of_the_same_name_are_not_judged(tmp_path):
    def change(head, files):
        head[2]["fields"][0]["id"] = 7

    with pytest.raises(UnjudgedFiles, match="x has another field id"):
        of_iceberg(str(tmp_path), change)


@pytest.mark.parametrize(
    ("name", "number", "whole", "part"),
    [
        ("x", 1, [False, False, False], [False, True, False]),
        # Iceberg's metadata column, of which the scan returns deleted rows.
        ("_deleted", 2147483644, [False, True, False], [False, True, False]),
    ],
)
def test_files_whose_rows_are_deleted_stay_where_deleted_rows_are_read(
    tmp_path, name, number, whole, part
):
    def change(head, files):
        kind = "long" if name == "x" else "boolean"
        head[2]["fields"] = [{"id": number, "name": name, "required": False, "type": kind}]

    for folder, dead, expected in (("whole", range(10), whole), ("part", range(9), part)):
        listing = of_iceberg(str(tmp_path / folder), change, dead)
        assert kept(listing, "x BETWEEN 12 AND 15") == expected
        if name == "x":
            continue
        with pytest.raises(UnsupportedForm):
            listing.rows(predicate("x = 12"), np.ones(3, np.bool_), ["x"], case_sensitive=False)


@LAKES
def test_other_types_are_not_judged(listed, tmp_path):
    listing = listed(str(tmp_path), lambda head, files: None)
    other = pa.schema([("x", pa.int32()), ("s", pa.string())])
    with pytest.raises(UnjudgedFiles, match="x has another type"):
        listing.keep_mask(predicate("x = 1", other), np.ones(3, np.bool_), case_sensitive=True)


def test_partition_values_without_a_zone_are_in_the_sessions_zone_for_joins_too(tmp_path):
    """Delta's older writers store such texts."""
    log = Log(tmp_path / "t", delta_schema("x BIGINT, k TIMESTAMP"), ["k"])
    for hour in range(3):
        log.add(Written([{"x": hour}], {"k": f"2024-07-01 0{hour}:30:00"}))
    table = ss.scan_delta(str(log.folder))
    every = np.ones(3, np.bool_)
    listing = LakeListing(table, ["a", "b", "c"], np.ones(3, np.int64), np.arange(3), pa.schema([]))
    instant = dt.datetime(2024, 7, 1, 5, 30, tzinfo=dt.UTC)  # 01:30 in New York
    keys = pa.table({"k": pa.array([instant], pa.timestamp("us", "UTC"))})
    collector = ss.DynamicFilterCollector(["k"], keys.schema)
    collector.add(keys)
    session = Session("America/New_York")
    filters = DynamicFilters((ss.DynamicFilter(collector.finish()),), table.schema, session)
    assert listing.filtered_partitions(filters).tolist() == [False, True, False]
    asked = PruningPredicate(parse("x >= 0")[0], table.schema, timezone="America/New_York")
    kept = listing.keep_mask(asked, every, case_sensitive=True, filters=filters)
    assert kept.tolist() == [False, True, False]


def test_ids():
    nested = {"type": "struct", "fields": [
        {"id": 1, "name": "a", "required": False, "type": {"type": "struct", "fields": [
            {"id": 2, "name": "b", "required": False, "type": "long"}]}}]}  # fmt: skip
    assert ids_of(json.dumps({"schema-id": 0, **nested})) == {"a": 1, "a.b": 2}
