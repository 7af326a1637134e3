"""DuckDB as the judge of rows.

Like Spark, it orders NaN above all numbers, compares strings by bytes and has three outcomes. It
counts the rows that match in each container, and a verdict must not contradict the count. It also
evaluates the rewritten predicate over a table of statistics: FALSE must be what `prune` drops.
"""

import random

import pyarrow as pa
import pytest

import skipstone as ss
from skipstone.ir.node import Op
from skipstone.ir.types import Kind
from tests.support.effort import LONG
from tests.support.predicates.duckdb_rows import in_duckdb
from tests.support.predicates.predicates import predicate
from tests.support.rows.strategies import Field, Table, array_of, point
from tests.support.rows.zonemaps import COUNTS, Stat, ZoneMap, zone_map

duckdb = pytest.importorskip("duckdb")

FIELDS = (
    Field(("t",), pa.bool_()),
    Field(("i",), pa.int32(), False),
    Field(("l",), pa.int64()),
    Field(("u",), pa.uint64()),
    Field(("f",), pa.float32()),
    Field(("g",), pa.float64()),
    Field(("m",), pa.decimal128(9, 2)),
    Field(("w",), pa.decimal128(38, 10)),
    Field(("d",), pa.date32()),
    Field(("n",), pa.timestamp("us")),
    Field(("s",), pa.string()),
    Field(("y",), pa.binary()),
)


def moderate(r, f: Field, center: int):
    """Return values that both engines hold: DuckDB reserves the ends of DATE and TIMESTAMP."""
    v = point(r, f.dtype, center, f.arrow)
    return (
        point(random.Random(0), f.dtype, center, f.arrow)
        if f.dtype.kind in (Kind.DATE, Kind.TIMESTAMP)
        and abs(v) > 10**16 * (f.dtype.kind is Kind.TIMESTAMP) + 10**6
        else v
    )


def random_table(r, containers: int) -> Table:
    made = []
    for _ in range(containers):
        centers, nulls = (
            {f.path: r.randint(-6, 6) for f in FIELDS},
            {f.path: r.choice((0, 0, 0.2, 1)) if f.nullable else 0 for f in FIELDS},
        )
        made.append(
            tuple(
                {
                    f.path: None if r.random() < nulls[f.path] else moderate(r, f, centers[f.path])
                    for f in FIELDS
                }
                for _ in range(r.randint(1, 6))
            )
        )
    return Table(FIELDS, tuple(made))


def counted(con, sql: str, n: int):
    """Return for each container matching rows and rows; None if DuckDB refuses the predicate."""
    try:
        found = {
            k: (a, b)
            for k, a, b in con.execute(
                f"SELECT k, count(*) FILTER (WHERE {in_duckdb(sql)}), count(*) FROM rows GROUP BY k"
            ).fetchall()
        }
    except duckdb.Error:
        return None
    return [found[k] for k in range(n)]


def judge(seed: int, containers: int = 24, predicates: int = 40):
    """Compare with DuckDB; return (verdicts, provably empty, pruned, provably full, ALWAYS)."""
    r = random.Random(seed)
    t = random_table(r, containers)
    z = zone_map(r, t)
    stats = z.statistics(t.schema)
    con = duckdb.connect()
    con.register(
        "arrow",
        pa.concat_tables(
            [
                pa.Table.from_batches([t.batch(k)]).append_column(
                    "k", pa.array([k] * len(t.containers[k]))
                )
                for k in range(containers)
            ]
        ),
    )
    con.execute("CREATE TABLE rows AS SELECT * FROM arrow")
    checked = empty = pruned = full = always = 0
    for _ in range(predicates):
        q = predicate(r, FIELDS, others=False)
        truth = counted(con, q.sql, containers)
        if truth is None:
            continue
        p = ss.PruningPredicate(q.sql, t.schema)
        for j, (verdict, keep, (hits, rows)) in enumerate(
            zip(p.evaluate(stats), p.prune(stats), truth, strict=True)
        ):
            sound = (
                hits == 0
                if verdict == ss.Verdict.NEVER
                else hits == rows
                if verdict == ss.Verdict.ALWAYS
                else True
            ) and (keep or hits == 0)
            assert sound, (q.sql, p.expr, verdict, hits, rows, z.stats[j], t.containers[j])
            empty, full = empty + (hits == 0), full + (hits == rows)
            pruned, always = pruned + (verdict == 0), always + (verdict == 2)
            checked += 1
    return checked, empty, pruned, full, always


@pytest.mark.parametrize("part", range(4 if LONG else 1))
def test_no_verdict_contradicts_the_count(part):
    totals = [
        sum(column) for column in zip(*(judge(100 * part + seed) for seed in range(8)), strict=True)
    ]
    checked, empty, pruned, full, always = totals
    assert checked > 5000
    assert (
        pruned > 0.7 * empty
    )  # most empty containers are found, though statistics are often loose or missing
    assert always > 0.55 * full


# The rewritten predicate, over a table with one row of statistics per container.


def of_interest(p: ss.PruningPredicate) -> bool:
    """Return False for IN, which `rewritten` shows by a lambda, and NOT IN by a weaker test."""
    return not any(n.op is Op.IN for n in p.node.walk())


def complete(s: Stat, f: Field, rows: int) -> Stat:
    """Return statistics with the counts that `rewritten` needs.

    It cannot see that a column is required, nor that a column of NaN alone is not NULL. Bounds of
    containers without a value are dropped: `rewritten` believes the counts, while `prune` detects
    the contradiction.
    """
    floating = f.dtype.kind is Kind.FLOAT
    required = not f.nullable or (floating and s.null_count is None)
    nulls = 0 if required else s.null_count
    gone = (nulls or 0) + ((s.nan_count or 0) if floating else 0)
    low, high = (None, None) if gone >= rows else (s.low, s.high)
    return Stat(low, high, nulls, rows, s.nan_count)


def rewritten_table(z: ZoneMap) -> pa.Table:
    columns = {}
    for f in z.fields:
        mine = [s[f.path] for s in z.stats]
        (name,) = f.path
        # A NaN bound is unknown; an unknown bound excludes only values beyond the type's range.
        wide = f.dtype.kind not in (Kind.DATE, Kind.TIMESTAMP)
        for k, a, end in (("min", "low", f.dtype.lowest), ("max", "high", f.dtype.highest)):
            bounds = [None if (v := getattr(s, a)) != v else v for s in mine]
            columns[f"{name}_{k}"] = array_of(
                [end if v is None and wide else v for v in bounds], f.arrow
            )
        columns |= {
            f"{name}_{k}": pa.array([getattr(s, k) for s in mine], pa.int64()) for k in COUNTS
        }
    return pa.table(columns)


@pytest.mark.parametrize("seed", range(6))
def test_rewritten_is_false_where_prune_drops(seed):
    r = random.Random(seed)
    t = random_table(r, 40)
    z = zone_map(r, t)
    z = ZoneMap(
        FIELDS,
        tuple(
            {f.path: complete(s[f.path], f, len(rows)) for f in FIELDS}
            for s, rows in zip(z.stats, t.containers, strict=True)
        ),
        (None,) * 40,
    )
    stats = z.statistics(t.schema)
    con = duckdb.connect()
    con.register("statistics", rewritten_table(z))
    checked = 0
    for _ in range(60):
        p = ss.PruningPredicate(predicate(r, FIELDS, others=False).sql, t.schema)
        if not of_interest(p) or p.program.derived:  # the table has no statistics of calls
            continue
        try:
            dropped = [
                d
                for (d,) in con.execute(
                    f"SELECT ({in_duckdb(p.rewritten)}) IS FALSE FROM statistics"
                ).fetchall()
            ]
        except (duckdb.ConversionException, duckdb.OutOfRangeException):
            continue  # DuckDB has no type for the literal
        kept = p.prune(stats).tolist()
        assert [not k for k in kept] == dropped, (
            p.expr,
            p.rewritten,
            next((z.stats[j], kept[j], dropped[j]) for j in range(40) if kept[j] == dropped[j]),
        )
        checked += 1
    assert checked > 20


# Text that both read: sqlglot must group it as DuckDB's own parser does.

GROUPING = [
    "NOT a = 1 AND b = 2", "NOT (a = 1 AND b = 2)", "NOT a = 1 OR b = 2",
    "a = 1 OR b = 2 AND c = 3", "(a = 1 OR b = 2) AND c = 3", "NOT a IS NULL", "NOT a IS NOT NULL",
    "a = 1 AND NOT b IS NULL OR c < 2", "NOT NOT a = 1", "a BETWEEN 1 AND 2 AND b = 1",
    "a NOT BETWEEN 1 AND 2 OR b = 1", "NOT a BETWEEN 1 AND 2",
    "a BETWEEN 1 AND 2 OR b BETWEEN 2 AND 3 AND c = 1", "a IN (1, 2) AND b NOT IN (1)",
    "NOT a IN (1, NULL)", "a NOT IN (1, 2) OR b IN (3)", "a IN ((1))", "(a) IN (1)",
    "((a)) = (((1)))", "(a = 1) IS NULL", "(a = 1) IS NOT NULL AND b = 1", "(a < 2) = (1 = 1)",
    "a = 1 IS NOT TRUE", "(a = 1) IS NOT TRUE", "a IS NOT DISTINCT FROM NULL OR b = 1",
    "a IS DISTINCT FROM 1 AND b IS DISTINCT FROM NULL", "1 = a", "1 < a AND 3 > b", "a = -1",
    "a > - 1", "a = +1", "a >= 1 -- b = 2", "a /* b */ = 1", "a <> 1", "a != 1", "a == 1",
    "a = 1 AND TRUE", "a = 1 OR NULL", "NULL", "TRUE", "a = 1;", "\n a\t=\n1\n",
    "(((((((a = 1)))))))", "a = 1 AND (b = 2 OR (c = 3 AND NOT (a = 2 OR b = 1)))",
]  # fmt: skip


@pytest.mark.parametrize("sql", GROUPING)
def test_text_is_grouped_as_duckdb_groups_it(sql):
    from skipstone.ir.rows import evaluate_rows

    values = (None, -1, 1, 2, 3)
    batch = pa.RecordBatch.from_pylist(
        [{"a": a, "b": b, "c": c} for a in values for b in values for c in values],
        pa.schema([(n, pa.int64()) for n in "abc"]),
    )
    con = duckdb.connect()
    con.register("rows", pa.Table.from_batches([batch]))
    expected = [x for (x,) in con.execute(f"SELECT ({sql.rstrip(';')}\n) FROM rows").fetchall()]
    assert evaluate_rows(ss.PruningPredicate(sql, batch.schema).node, batch).to_pylist() == expected
