"""Judges of verdicts: the row evaluator, DuckDB and Spark, vectorised over many containers."""

import dataclasses
import functools
import random
from collections import defaultdict

import numpy as np
import pyarrow as pa

import skipstone as ss
from skipstone.ir.errors import UnsupportedForm
from skipstone.ir.node import TERMS, Node, Op, columns_of
from skipstone.ir.outcome import Verdict
from skipstone.ir.rows import judge
from skipstone.ir.session import Session
from tests.support.predicates.conditions import Predicate, Predicates
from tests.support.predicates.inside import SESSIONS, in_one, vague
from tests.support.rows.neighbours import FIELDS, FOREIGN, table
from tests.support.rows.strategies import Table
from tests.support.rows.zonemaps import Stat, ZoneMap, zone_map

# DuckDB needs an extension from the network for a session time zone, and computes FLOAT with
# DECIMAL as FLOAT.
IN_DUCKDB = tuple(f for f in FIELDS if f.name not in ("z", "f"))


@dataclasses.dataclass
class Trial:
    """Random rows in containers, their statistics, and a session."""

    seed: int
    table: Table
    zones: ZoneMap
    session: Session
    batch: pa.RecordBatch
    container: np.ndarray
    predicates: Predicates

    @functools.cached_property
    def stats(self) -> ss.Statistics:
        return self.zones.statistics(self.table.schema)

    @property
    def containers(self) -> int:
        return len(self.table.containers)

    def pruning(self, sql: str) -> ss.PruningPredicate:
        return ss.PruningPredicate(
            sql, self.table.schema, timezone=self.session.timezone, ansi=self.session.ansi
        )

    def any(self, rows: np.ndarray) -> np.ndarray:
        """Return the containers that hold a row of a mask."""
        return np.bincount(self.container, rows, self.containers) > 0


def trial(
    seed: int,
    containers: int,
    *,
    fields=(*FIELDS, *FOREIGN),
    odd: bool = True,
    agreed: bool = False,
    sessions=SESSIONS,
) -> Trial:
    r = random.Random(seed)
    t = table(r, fields, containers=containers, odd=odd)
    session = r.choice(sessions)
    z = zone_map(r, t, contained=containers <= 300 and r.random() < 0.3)
    if r.random() < 0.5:  # the best possible statistics: they cannot prune more
        z = ZoneMap(
            t.fields,
            tuple({f.path: exact(f, rows) for f in t.fields} for rows in t.containers),
            tuple(map(len, t.containers)),
        )
    batch, container = in_one(t)
    return Trial(
        seed,
        t,
        z,
        session,
        batch,
        container,
        Predicates(r, t.fields, batch, session, agreed=agreed),
    )


def exact(f, rows) -> Stat:
    there = [v for row in rows if (v := row[f.path]) is not None]
    numbers = [v for v in there if v == v]
    bounds = (min(numbers), max(numbers)) if numbers else (None, None)
    return Stat(*bounds, len(rows) - len(there), len(rows), len(there) - len(numbers))


@dataclasses.dataclass
class Count:
    """Counts of one form."""

    predicates: int = 0
    verdicts: int = 0
    empty: int = 0
    pruned: int = 0
    full: int = 0
    always: int = 0


class Tally:
    """Counts per form, and unsound verdicts."""

    def __init__(self) -> None:
        self.forms: dict[str, Count] = defaultdict(Count)
        self.unsound: list[str] = []
        self.surprises: list[str] = []  # rows on which Spark disagrees
        self.raised: list[str] = []  # predicates on which Spark raises unexpectedly

    @property
    def verdicts(self) -> int:
        return sum(c.verdicts for c in self.forms.values())

    @property
    def predicates(self) -> int:
        return sum(c.predicates for c in self.forms.values())

    def add(self, form: str, verdicts: np.ndarray, hit: np.ndarray, miss: np.ndarray) -> None:
        c = self.forms[form]
        c.predicates, c.verdicts = c.predicates + 1, c.verdicts + len(verdicts)
        c.empty, c.pruned = (
            c.empty + int((~hit).sum()),
            c.pruned + int((verdicts == Verdict.NEVER).sum()),
        )
        c.full, c.always = (
            c.full + int((~miss).sum()),
            c.always + int((verdicts == Verdict.ALWAYS).sum()),
        )

    def __str__(self) -> str:
        share = lambda a, b: f"{a / b:7.1%}" if b else "      -"
        lines = [
            f"{'form':45}{'predicates':>11}{'verdicts':>12}{'empty':>10} "
            f"{'pruned':>7}{'full':>10} {'ALWAYS':>7}"
        ]
        total = Count(
            *(
                sum(getattr(c, f.name) for c in self.forms.values())
                for f in dataclasses.fields(Count)
            )
        )
        for form, c in [*sorted(self.forms.items()), ("all", total)]:
            lines.append(
                f"{form:45}{c.predicates:11,}{c.verdicts:12,}{c.empty:10,} "
                f"{share(c.pruned, c.empty)}{c.full:10,} {share(c.always, c.full)}"
            )
        return "\n".join(lines)


def outcomes(
    n: Node, batch: pa.RecordBatch, cache: dict
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return what each row may give: masks of TRUE, FALSE, NULL, and of unknown rows.

    A test that raises in Spark may give anything, and so may one that is not understood.
    """
    every, some, size = np.logical_and.reduce, np.logical_or.reduce, batch.num_rows
    match n.op:
        case Op.AND | Op.OR | Op.NOT | Op.IS_TRUE:
            parts = [outcomes(a, batch, cache) for a in n.args]
            trues, falses, nulls, blind = ([p[i] for p in parts] for i in range(4))
            if n.op is Op.NOT:
                return falses[0], trues[0], nulls[0], blind[0]
            if n.op is Op.IS_TRUE:
                return trues[0], falses[0] | nulls[0], np.zeros(size, np.bool_), blind[0]
            undecided = trues if n.op is Op.AND else falses
            null = every([u | v for u, v in zip(undecided, nulls, strict=True)]) & some(nulls)
            return (
                (every(trues), some(falses), null, some(blind))
                if n.op is Op.AND
                else (some(trues), every(falses), null, some(blind))
            )
        case Op.IS_NULL if n.args[0].op not in TERMS:
            true, false, null, blind = outcomes(n.args[0], batch, cache)
            return null, true | false, np.zeros(size, np.bool_), blind
    try:
        truth = judge(n, batch, cache)
    except UnsupportedForm:
        return (np.ones(size, np.bool_),) * 3 + (np.zeros(size, np.bool_),)
    true, false, may_raise = truth.true, truth.false, truth.may_raise
    return true | may_raise, false | may_raise, ~(true | false), may_raise & vague(n)


def verdicts_of(
    t: Trial, p: ss.PruningPredicate, backends: tuple[str, ...]
) -> tuple[np.ndarray, np.ndarray]:
    """Return (verdicts, kept containers), and check that all backends agree on both."""
    found = [(p.evaluate(t.stats, backend=b), p.prune(t.stats, backend=b)) for b in backends]
    for b, (verdicts, kept) in zip(backends, found, strict=True):
        assert np.array_equal(verdicts, found[0][0]), (
            f"seed {t.seed}: {b} differs from {backends[0]} in {p.expr}"
        )
        assert np.array_equal(kept, verdicts != Verdict.NEVER), (
            f"seed {t.seed}: prune differs from evaluate on {b} in {p.expr}"
        )
    return found[0]


def check(
    t: Trial,
    q: Predicate,
    verdicts: np.ndarray,
    true: np.ndarray,
    other: np.ndarray,
    tally: Tally,
    judge_name: str,
) -> None:
    """Compare verdicts with rows: masks of those that may be TRUE, and of those that may not."""
    hit, miss = t.any(true), t.any(other)
    wrong = ((verdicts == Verdict.NEVER) & hit) | ((verdicts == Verdict.ALWAYS) & miss)
    tally.add(q.form, verdicts, hit, miss)
    if wrong.any():
        tally.unsound.append(
            describe_failure(t, q, int(np.flatnonzero(wrong)[0]), verdicts, true, other, judge_name)
        )


def describe_failure(t: Trial, q: Predicate, j: int, verdicts, true, other, judge_name: str) -> str:
    """Return a failing case as text, as small as possible: one container and the named columns."""
    p = t.pruning(q.sql)
    named, inside = columns_of(p.node), np.flatnonzero(t.container == j)
    outcome = lambda i: {
        (True, False): "TRUE",
        (False, True): "not TRUE",
        (True, True): "raises",
    }.get((bool(true[i]), bool(other[i])), "not judged")
    rows = [
        ({".".join(c): t.table.containers[j][k][c] for c in named}, outcome(i))
        for k, i in enumerate(inside)
    ]
    return (
        f"seed {t.seed}, {judge_name}, {t.session}: {Verdict(int(verdicts[j])).name}\n  "
        f"{q.sql}\n  bound   {str(p.expr)[:600]}\n  stats   "
        f"{ {'.'.join(c): t.zones.stats[j][c] for c in named} }, rows {t.zones.rows[j]}\n  rows    "
        + "\n          ".join(map(str, rows))
    )


def by_rows(
    seed: int, tally: Tally, *, containers: int = 2000, predicates: int = 100, numba: float = 0.0
) -> None:
    """Let the row evaluator judge; `numba` is the share of predicates that also run compiled."""
    t, r = trial(seed, containers), random.Random(seed)
    for _ in range(predicates):
        q = t.predicates.predicate()
        p = t.pruning(q.sql)
        verdicts, _ = verdicts_of(t, p, ("numpy", "numba") if r.random() < numba else ("numpy",))
        true, false, null, blind = outcomes(p.node, t.batch, {})
        check(t, q, verdicts, true & ~blind, (false | null) & ~blind, tally, "rows")


def by_duckdb(
    seed: int, tally: Tally, *, containers: int = 2000, predicates: int = 100, numba: float = 0.0
) -> None:
    """Let DuckDB judge where it agrees with Spark; it counts rows in all containers at once."""
    import duckdb

    from tests.support.predicates.duckdb_rows import in_duckdb

    session = Session("UTC", random.Random(seed).random() < 0.5)
    t, r = (
        trial(seed, containers, fields=IN_DUCKDB, odd=False, agreed=True, sessions=(session,)),
        random.Random(seed),
    )
    con = duckdb.connect()
    con.register(
        "arrow",
        pa.Table.from_batches([t.batch]).append_column(
            "row", pa.array(np.arange(len(t.container)))
        ),
    )
    con.execute("CREATE TABLE rows AS SELECT * FROM arrow")
    questions = [t.predicates.predicate() for _ in range(predicates)]
    asked = [(q, in_duckdb(q.sql)) for q in questions]

    def ask(some):
        try:
            columns = (
                con.sql(
                    "SELECT "
                    f"{', '.join(f'({sql}) AS c{i}' for i, (_, sql) in enumerate(some))} "
                    "FROM rows ORDER BY row"
                )
                .to_arrow_table()
                .columns
            )
            return [(q, c) for (q, _), c in zip(some, columns, strict=True)]
        except duckdb.Error:
            if len(some) == 1:
                tally.forms["refused by DuckDB"].predicates += 1
                return []
            return ask(some[: len(some) // 2]) + ask(some[len(some) // 2 :])

    for q, column in ask(asked):
        p = t.pruning(q.sql)
        verdicts, _ = verdicts_of(t, p, ("numpy", "numba") if r.random() < numba else ("numpy",))
        true = np.asarray(
            column.combine_chunks().fill_null(False).to_numpy(zero_copy_only=False), np.bool_
        )
        # DuckDB may return a value where Spark raises, so it does not judge unknown rows.
        check(t, q, verdicts, true, ~true, tally, "DuckDB")
