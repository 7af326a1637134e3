"""Delta's own test cases as tables: we skip what Delta skips, and lose no matching row."""

import datetime as dt
import json
import re
import zoneinfo
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import skipstone as ss
from skipstone.ir.rows import matching_rows
from tests.support.tables.delta_log import (
    Log,
    Written,
    arrow_schema,
    arrow_table,
    delta_schema,
    truncated,
)
from tests.support.tables.generated_columns import generate, schema_of, written

CASES = json.loads((Path(__file__).parents[2] / "data" / "delta.json").read_text())
RANGES = {
    "range(0,50)": range(50),
    "range(50,100)": range(50, 100),
    "range(100,150)": range(100, 150),
    "range(150,200)": range(150, 200),
    "range(10)": range(10),
}


def rows_of(f, schema):
    """Return the rows of a file, also where the case gives them as SQL that counts."""
    if f.get("rows") is not None:
        return f["rows"]
    span = next(r for text, r in RANGES.items() if text in f["rows_sql"])
    constant = {k: int(v) for k, v in f.get("partition_values", {}).items()}
    if schema.names == ["b"]:
        return [{"b": str(i).encode()} for i in span]
    return [{name: constant.get(name, i) for name in schema.names} for i in span]


def built(case, folder):
    described = schema_of(case["schema_ddl"], case["table"]["other"].get("generated_columns", {}))
    schema, table = arrow_schema(described), case["table"]
    other, zone = table["other"], table["other"].get("session_timezone", "UTC")
    configuration = {k: v for k, v in other.items() if k.startswith("delta.")}
    log = Log(
        folder,
        described,
        table["partition_by"],
        configuration,
        ("deletionVectors", "timestampNtz"),
        table["column_mapping"].replace("none", "") or None,
    )
    wanted = other.get("delta.dataSkippingStatsColumns")
    named = None
    if wanted:
        named = [
            ".".join(log.name(part) if i == 0 else part for i, part in enumerate(w.split(".")))
            for w in wanted.split(",")
        ]
    for f in case["files"]:
        rows = arrow_table(rows_of(f, schema), schema, zone)
        dead = f.get("deleted_row_indexes") or (
            list(range(f["dv_cardinality"])) if "dv_cardinality" in f else None
        )
        log.add(
            Written(rows, dict(f.get("partition_values", {}).items()), f.get("stats", ...), dead),
            indexed=indexed_of(case, f),
            wanted=named,
        )
    return ss.scan_delta(folder), zone


def indexed_of(case, f):
    if f.get("stats_columns_present") == ["col1", "col2"] or "col1,col2" in str(
        f.get("stats_columns_present")
    ):
        return 2
    count = case["table"]["indexed_cols"]
    return 32 if count is None else count


SKIP = [c for c in CASES if c["kind"] == "skip"]
MANY = [c for c in CASES if c["kind"] == "multi_file"]
LIMIT = [c for c in CASES if c["kind"] == "limit"]


def names(cases):
    return [c["id"] for c in cases]


@pytest.mark.parametrize("case", SKIP, ids=names(SKIP))
def test_files_that_delta_skips_are_skipped(case, tmp_path):
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
def test_no_more_files_are_kept_than_by_delta(case, tmp_path):
    table, zone = built(case, tmp_path / "t")
    paths = list(table.all_files)
    for expect in case["expect"]:
        kept = [
            paths.index(p) for p in table.plan(expect["predicate"], timezone=zone, footers=0).files
        ]
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
        assert plan.sizes.scan.logical_rows == expect.get(
            "scanned_logical_rows", plan.sizes.scan.logical_rows
        )
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
    """Files with a new deletion vector have wide bounds; the remaining statistics are used."""
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
        assert (
            table.plan(f"NOT ({expect['delete']})").to_arrow().num_rows
            == table.plan().to_arrow().num_rows
        )
        known = [after is not None for after in expect["stats_after"]]
        assert table.get_stats_column("num_records").is_valid().to_pylist() == known
        assert table.with_stats.column("tight_bounds").to_pylist() == [not k for k in known]


def matched_row(predicate, row):
    return matching_rows(predicate.node, row.to_batches()[0]).num_rows == 1


# Generated partition columns. Cases state Delta's derived filters as SQL; their files have no
# statistics, and we must keep no more of them than these filters do.

GENERATED = [c for c in CASES if c["kind"] == "generated_partition_filter" and not c["files"]]
BUILT = [c for c in CASES if c["kind"] == "generated_partition_filter" and c["files"]]
APART = [
    dt.timedelta(microseconds=1),
    *(dt.timedelta(hours=h) for h in (1, 7, 26, 60, 24 * 20, 24 * 45, 24 * 400, 24 * 1200)),
]
TEXTS = [
    "",
    "f",
    "fo",
    "foo",
    "fooa",
    "foob",
    "fop",
    "fon",
    "fonz",
    "fo\u00e9",
    "a",
    "zzz",
    "xoo",
    "xooy",
    "oof",
    None,
]


def candidates(literal, kind):
    """Return values of a source column near and far from a literal."""
    if pa.types.is_string(kind):
        return pa.array(TEXTS, kind)
    at = dt.datetime.fromisoformat(literal)
    around = [None, at, *(at + d for d in APART), *(at - d for d in APART)]
    if pa.types.is_date(kind):
        return pa.array([a and a.date() for a in around], kind)
    return pc.assume_timezone(pa.array(around, pa.timestamp("us")), "America/Los_Angeles").cast(
        kind
    )


def kept_by_delta(filters, values, zone):
    """Return the partitions that Delta's derived filters keep, where they are TRUE."""
    out = np.ones(values.num_rows, np.bool_)
    for text in filters:
        m = re.search(r"unix_timestamp\((\w+), '([^']*)'\)", text)
        if m:
            form = (
                m[2]
                .replace("yyyy", "%Y")
                .replace("MM", "%m")
                .replace("dd", "%d")
                .replace("HH", "%H")
            )
            starts = [
                None
                if v is None
                else dt.datetime.strptime(v, form)
                .replace(tzinfo=zoneinfo.ZoneInfo(zone))
                .timestamp()
                for v in values.column(m[1]).to_pylist()
            ]
            values = values.append_column("unix_start", pa.array(starts).cast(pa.int64()))
            text = text.replace(m[0], "unix_start")
        numbered = values.append_column("number", pa.array(range(values.num_rows)))
        found = matching_rows(
            ss.PruningPredicate(text, numbered.schema, timezone=zone).node, numbered.to_batches()[0]
        )
        out &= np.isin(np.arange(values.num_rows), found.column("number").to_pylist())
    return np.flatnonzero(out).tolist()


def matches(where, rows, zone):
    return (
        matching_rows(
            ss.PruningPredicate(where, rows.schema, timezone=zone).node, rows.to_batches()[0]
        ).num_rows
        > 0
    )


@pytest.mark.parametrize("nested", [False, True], ids=["", "nested"])
@pytest.mark.parametrize("case", GENERATED, ids=names(GENERATED))
def test_generated_partition_columns_keep_no_more_than_deltas_filters(case, nested, tmp_path):
    """Files that only we keep hold times that a writer in another zone would write.

    There Delta's filters depend on the session's zone, and lose rows (delta#2343).
    """
    other, partition_by = case["table"]["other"], case["table"]["partition_by"]
    if nested and not other["also_tested_nested"]:
        pytest.skip("Delta's tests have no nested form of this case")
    zone, expressions, ddl = (
        other["session_timezone"],
        other["generated_columns"],
        case["schema_ddl"],
    )
    source = delta_schema(ddl)["fields"][0]["name"]

    def moved(text):
        return (
            re.sub(rf"(?<![.\w`]){re.escape(source)}\b", f"nested.{source}", text)
            if nested
            else text
        )

    described = schema_of(ddl, {name: moved(e) for name, e in expressions.items()})
    kind = arrow_schema(described).field(source).type
    for i, expect in enumerate(case["expect"]):
        literal = next(
            (m[1] for e in [*case["expect"]] if (m := re.search("'([^']*)'", e["predicate"]))), None
        )
        column = candidates(literal, kind)
        rows = pa.table({source: column})
        if "nested" in ddl:
            rows = rows.append_column("nested", pa.StructArray.from_arrays([column], ["value"]))
        if nested:
            first = described["fields"][0] if described["fields"][0]["name"] == source else None
            if first is not None:
                described["fields"][0] = {
                    "name": "nested",
                    "type": {"type": "struct", "fields": [first]},
                    "nullable": True,
                    "metadata": {},
                }
            rows = pa.table({"nested": pa.StructArray.from_arrays([column], [source])})
        log, files = written(tmp_path / str(i), described, rows, partition_by, zone)
        table = ss.scan_delta(log.folder)
        where = moved(expect["predicate"])
        plan = table.plan(where, timezone=zone)
        ours = plan.kept.tolist()
        values = pa.table(
            {
                n: pc.cast(
                    generate(moved(expressions[n]), rows, zone),
                    arrow_schema(described).field(n).type,
                ).take(pa.array([f[0] for f in files]))
                for n in partition_by
            }
        )
        values = values.set_column(
            0,
            values.column_names[0],
            pc.if_else(pc.equal(values[0].cast(pa.string()), ""), None, values[0]),
        )
        theirs = kept_by_delta(expect["partition_filters"], values, zone)
        for f, at in enumerate(files):
            own = rows.take(pa.array(at))
            if matches(where, own, zone):
                assert f in ours, where
            elif f in ours and f not in theirs:
                assert pa.types.is_timestamp(kind), (where, values.slice(f, 1).to_pylist())
                shifted = [
                    pa.table(
                        {
                            source: pc.add(
                                column.take(pa.array(at)), pa.scalar(dt.timedelta(hours=h))
                            )
                        }
                    )
                    for h in range(-37, 38)
                ]
                assert any(matches(expect["predicate"], s, zone) for s in shifted), (
                    where,
                    values.slice(f, 1).to_pylist(),
                )
        assert plan.sizes.partition.files == len(ours)


@pytest.mark.parametrize("case", BUILT, ids=names(BUILT))
def test_files_of_generated_partition_columns_are_kept(case, tmp_path):
    for stats in ([], [None]):
        for f in case["files"]:
            f |= {"stats": None} if stats else {}
        table, zone = built(case, tmp_path / f"t{len(stats)}")
        for expect in case["expect"]:
            plan = table.plan(expect["predicate"], timezone=zone)
            assert plan.kept.tolist() == expect["kept"]


TRUNCATED = [c for c in CASES if c["kind"] == "string_truncation"]


@pytest.mark.parametrize("case", TRUNCATED, ids=names(TRUNCATED))
def test_truncated_texts_bound_the_whole_texts(case, tmp_path):
    """For any prefix length a text is found, and a value below the bounds is not."""
    for i, expect in enumerate(case["expect"]):
        text, cut, length = expect["input"], expect["expected"], expect["prefix_len"]
        assert truncated(text, length) == cut
        high = truncated(text, length, high=True)
        stats = {
            "numRecords": 1,
            "minValues": {"s": cut},
            "maxValues": {"s": high},
            "nullCount": {"s": 0},
        }
        log = Log(tmp_path / str(i), delta_schema("s STRING"))
        log.add(
            Written(
                [{"s": text}],
                stats={
                    k: {c: v for c, v in b.items() if v is not None} if isinstance(b, dict) else b
                    for k, b in stats.items()
                },
            )
        )
        table = ss.scan_delta(log.folder)
        assert table.plan(ss.col("s") == text).to_arrow().num_rows == 1
        assert table.plan(ss.col("s") >= text).to_arrow().num_rows == 1
        assert len(table.plan(ss.col("s") < (cut or "")).files) == 0
        assert cut is None or high is None or cut.encode() <= text.encode() <= high.encode()
