"""Delta's own cases, built as tables: what it skips is skipped, and no file with a matching row is lost."""

import json
from pathlib import Path

import pytest

import skipstone as ss
from tests.delta_log import Log, Written, arrow_schema, arrow_table, delta_schema

CASES = json.loads((Path(__file__).parent / "data" / "delta.json").read_text())
RANGES = {
    "range(0,50)": range(50),
    "range(50,100)": range(50, 100),
    "range(100,150)": range(100, 150),
    "range(150,200)": range(150, 200),
    "range(10)": range(10),
}


def rows_of(f, schema):
    """The rows of a file, of SQL that only counts too."""
    if f.get("rows") is not None:
        return f["rows"]
    span = next(r for text, r in RANGES.items() if text in f["rows_sql"])
    constant = {k: int(v) for k, v in f.get("partition_values", {}).items()}
    if schema.names == ["b"]:
        return [{"b": str(i).encode()} for i in span]
    return [{name: constant.get(name, i) for name in schema.names} for i in span]


def built(case, folder):
    described = delta_schema(case["schema_ddl"])
    schema, table = arrow_schema(described), case["table"]
    other, zone = table["other"], table["other"].get("session_timezone", "UTC")
    configuration = {k: v for k, v in other.items() if k.startswith("delta.")}
    log = Log(folder, described, table["partition_by"], configuration, ("deletionVectors", "timestampNtz"), table["column_mapping"].replace("none", "") or None)
    wanted = other.get("delta.dataSkippingStatsColumns")
    named = None
    if wanted:
        named = [".".join(log.name(part) if i == 0 else part for i, part in enumerate(w.split("."))) for w in wanted.split(",")]
    for f in case["files"]:
        rows = arrow_table(rows_of(f, schema), schema, zone)
        dead = f.get("deleted_row_indexes") or (list(range(f["dv_cardinality"])) if "dv_cardinality" in f else None)
        log.add(
            Written(rows, dict(f.get("partition_values", {}).items()), f.get("stats", ...), dead),
            indexed=indexed_of(case, f),
            wanted=named,
        )
    return ss.scan_delta(folder), zone


def indexed_of(case, f):
    if f.get("stats_columns_present") == ["col1", "col2"] or "col1,col2" in str(f.get("stats_columns_present")):
        return 2
    count = case["table"]["indexed_cols"]
    return 32 if count is None else count


SKIP = [c for c in CASES if c["kind"] == "skip"]
MANY = [c for c in CASES if c["kind"] == "multi_file"]
LIMIT = [c for c in CASES if c["kind"] == "limit"]


def names(cases):
    return [c["id"] for c in cases]


@pytest.mark.parametrize("case", SKIP, ids=names(SKIP))
def test_what_delta_skips_is_skipped_and_what_matches_is_kept(case, tmp_path):
    table, zone = built(case, tmp_path / "t")
    for where in case["hits"]:
        try:
            kept = table.plan(where, timezone=zone).files
        except ss.UnknownColumn:
            assert "non-existent" in case["id"]
            continue
        assert kept, f"{where} has a matching row"
    for where in case["misses"]:
        assert not table.plan(where, timezone=zone).files, f"{where} is skipped by Delta"


@pytest.mark.parametrize("case", MANY, ids=names(MANY))
def test_of_many_files_no_more_are_kept_than_delta_keeps(case, tmp_path):
    table, zone = built(case, tmp_path / "t")
    paths = list(table.all_files)
    for expect in case["expect"]:
        kept = [paths.index(p) for p in table.plan(expect["predicate"], timezone=zone).files]
        assert len(kept) <= expect["num_files"], expect["predicate"]
        assert set(expect.get("files_with_matching_rows", ())) <= set(kept), expect["predicate"]
        if "kept" in expect:
            assert kept == expect["kept"]


@pytest.mark.parametrize("case", LIMIT, ids=names(LIMIT))
def test_limits(case, tmp_path):
    table, _ = built(case, tmp_path / "t")
    for expect in case["expect"]:
        plan = table.plan(expect["predicate"], limit=expect["limit"])
        assert len(plan.files) == expect["num_files"]
        assert plan.skipping == ("limit" if expect["limit"] is not None else "partition")
        assert plan.sizes.scan.rows == expect.get("scanned_rows", plan.sizes.scan.rows)
        assert plan.sizes.scan.logical_rows == expect.get("scanned_logical_rows", plan.sizes.scan.logical_rows)
        if "kept" in expect:
            assert plan.kept.tolist() == expect["kept"]
        if expect["limit"] is not None:
            rows = plan.to_arrow()
            everything = table.plan(expect["predicate"]).to_arrow()
            assert rows.num_rows == min(expect["limit"], everything.num_rows)
            assert set(map(str, rows.to_pylist())) <= set(map(str, everything.to_pylist()))


STATE = [c for c in CASES if c["kind"] == "stats_state"]


@pytest.mark.parametrize("case", STATE, ids=names(STATE))
def test_statistics_after_rows_were_deleted(case, tmp_path):
    """Files that gained a deletion vector have wide bounds; whatever is left of statistics is used, and no more."""
    described = delta_schema(case["schema_ddl"])
    schema = arrow_schema(described)
    for expect in case["expect"]:
        expect["delete"] = expect["delete"].replace("b = '1'", "b = X'31'")
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        log = Log(folder, described, case["table"]["partition_by"], features=("deletionVectors",))
        for f, after in zip(case["files"], expect["stats_after"], strict=True):
            rows = arrow_table(rows_of(f, schema), schema)
            matched = ss.PruningPredicate(expect["delete"], schema)
            dead = [i for i in range(rows.num_rows) if matched_row(matched, rows.slice(i, 1))]
            log.add(Written(rows, f.get("partition_values", {}), after, dead or None))
        table = ss.scan_delta(folder)
        assert table.plan(expect["delete"]).to_arrow().num_rows == 0
        assert table.plan(f"NOT ({expect['delete']})").to_arrow().num_rows == table.plan().to_arrow().num_rows
        known = [after is not None for after in expect["stats_after"]]
        assert table.get_stats_column("num_records").is_valid().to_pylist() == known
        assert table.with_stats.column("tight_bounds").to_pylist() == [not k for k in known]


def matched_row(predicate, row):
    from skipstone.ir.rows import matching_rows

    return matching_rows(predicate.node, row.to_batches()[0]).num_rows == 1
