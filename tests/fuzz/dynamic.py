"""Random joins: a pruned join returns the rows of the plain one, by an oracle in plain Python.

`python -m tests.fuzz.dynamic --cases N`
"""

import argparse
import os
import random
import re
import tempfile
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skipstone as ss
from skipstone.bindings.filters.kinds import LEFT, Needs
from skipstone.bindings.filters.scan import DynamicFilters
from skipstone.ir.session import Session
from tests.support.joins.dynamic import (
    KINDS,
    PARTNERS,
    Raises,
    Random,
    cast_texts,
    matches,
    needed,
    statistics,
    table,
    typed,
)

HOWS = tuple(LEFT)
FILES = 25  # one in this many cases has files


def collected(r, rows, kinds, probe, names, **limits):
    """Return a filter of rows that arrive in random batches, orders and parts."""
    schema = pa.schema([(n, KINDS[k]) for n, k in zip(names, probe, strict=True)])
    rows = list(rows)
    r.shuffle(rows)
    parts = [
        ss.DynamicFilterCollector(names, schema, **limits) for _ in range(r.choice([1, 1, 2, 3]))
    ]
    cuts = sorted(r.randint(0, len(rows)) for _ in range(r.randint(0, 3)))
    for a, b in zip([0, *cuts], [*cuts, len(rows)], strict=True):
        r.choice(parts).add(table(rows[a:b], kinds, names))
    r.shuffle(parts)
    first, *rest = [p.finish() for p in parts]
    return first.merge(*rest)


def compared(rows, kinds, others):
    """Return rows as Spark compares them, with their kinds; None if a row's cast raises."""
    out = []
    for row in rows:
        try:
            (values,), after = cast_texts([row], kinds, others)
            out.append(typed(values, after))
        except Raises:
            out.append(None)
    return out


def case(seed):
    """Run one random filter over random containers."""
    r = random.Random(seed)
    make, width = Random(r), r.choice([1, 1, 1, 2, 2, 3])
    probe = [r.choice(list(KINDS)) for _ in range(width)]
    build = [k if r.random() < 0.5 else r.choice(PARTNERS[k]) for k in probe]
    names = [f"k{i}" for i in range(width)]
    safe = [r.random() < 0.2 for _ in names]
    limits = {"null_safe": [n for n, s in zip(names, safe, strict=True) if s]}
    if r.random() < 0.5:
        limits |= r.choice([{"max_values": r.randint(1, 4)}, {"threshold": r.randint(1, 60)}]) | {
            "ranges": r.randint(1, 4)
        }
        limits["on_overflow"] = r.choice(["degrade", "degrade", "degrade", "all"])
    keys = make.rows(build, 7, probe)
    data = collected(r, keys, build, probe, names, **limits)
    assert (
        data.fingerprint == collected(r, [*keys, *keys], build, probe, names, **limits).fingerprint
    ), (seed, "order")
    containers = [make.rows(probe, 4, build) for _ in range(r.randint(1, 8))]
    # Containers of one value are the ones that a filter can settle.
    containers += [[c[0]] * len(c) for c in containers if c]
    typed_keys = compared(keys, build, probe)
    if None in typed_keys:
        return unknown_case(seed, data, containers, probe, names, r)
    as_typed = (
        (lambda rows: compared(rows, probe, build))
        if keys
        else (lambda rows: [typed(row, probe) for row in rows])
    )
    rows = [row for c in containers for row in c]
    if None in as_typed(rows):
        assert data.contains(table(rows, probe, names)).all(), (seed, "a row that raises is lost")
        assert data.matched(table(rows, probe, names)) is None, (seed, "a row that raises")
        rows = [row for row in rows if None not in as_typed([row])]
    if rows:
        found = data.contains(table(rows, probe, names))
        for row, has in zip(as_typed(rows), found.tolist(), strict=True):
            expected = matches(row, typed_keys, safe)
            assert has or not expected, (seed, "lost row", row)
            assert not data.exact or has == expected, (seed, "exact", row)
    stats = statistics(containers, probe, names, r)
    how = r.choice(HOWS)
    f = ss.DynamicFilter(data, how=how)
    verdicts = DynamicFilters((f,), stats.schema, Session()).judged(
        stats, np.full(len(containers), 2, np.uint8)
    )
    for rows, verdict in zip(containers, verdicts.tolist(), strict=True):
        if None in as_typed(rows):
            assert LEFT[how] is Needs.ALL or verdict == 1, (seed, how, "an error is lost", rows)
            continue
        wanted = [needed(row, typed_keys, how, safe) for row in as_typed(rows)]
        assert verdict or not any(wanted), (seed, how, "pruned", rows)
        assert verdict < 2 or all(wanted), (seed, how, "certain", rows)
    spelled = ss.PruningPredicate(data.to_predicate(), stats.schema).evaluate(stats)
    for rows, verdict in zip(containers, spelled.tolist(), strict=True):
        if None in as_typed(rows):
            continue
        has = [matches(row, typed_keys, safe) for row in as_typed(rows)]
        assert verdict or not any(has), (seed, "pruned by the predicate", rows)
        assert verdict < 2 or not data.exact or width > 1 or all(has), (
            seed,
            "certain by the predicate",
            rows,
        )
    return int((verdicts == 0).sum()), len(containers)


def unknown_case(seed, data, containers, probe, names, r):
    """Check that a filter whose keys raise an error keeps everything."""
    assert not data.filtering and data.matched(table(containers[0], probe, names)) is None, seed
    stats = statistics(containers, probe, names, r)
    for how in HOWS:
        verdicts = DynamicFilters(
            (ss.DynamicFilter(data, how=how),), stats.schema, Session()
        ).judged(stats, np.full(len(containers), 1, np.uint8))
        assert (verdicts == 1).all(), (seed, how, "pruned by unknown keys")
    return 0, len(containers)


def oracle_join(fact, dim, kinds_fact, kinds_dim, how, safe):
    """Return the join of numbered rows, as a sorted list of pairs of numbers; None: no partner.

    Raises:
        Raises: Spark raises an error for a key.
    """
    if fact and dim:
        (fact, after), (dim, kinds_dim) = (
            cast_texts(fact, kinds_fact, kinds_dim),
            cast_texts(dim, kinds_dim, kinds_fact),
        )
        kinds_fact = after
    left = [typed(row, kinds_fact) for row in fact]
    right = [typed(row, kinds_dim) for row in dim]
    if how in ("semi", "anti", "not in"):
        return [(i, None) for i, row in enumerate(left) if needed(row, right, how, safe)]
    pairs = [
        (i, j)
        for i, row in enumerate(left)
        for j, key in enumerate(right)
        if matches(row, [key], safe)
    ]
    if how in ("left", "full"):
        pairs += [(i, None) for i in range(len(left)) if i not in {p[0] for p in pairs}]
    if how in ("right", "full"):
        pairs += [(None, j) for j in range(len(right)) if j not in {p[1] for p in pairs}]
    return pairs


def file_case(seed):
    """Run one random join of files with rows."""
    r = random.Random(seed)
    make, width = Random(r), r.choice([1, 1, 2])
    probe = [r.choice(list(KINDS)) for _ in range(width)]
    build = [k if r.random() < 0.5 else r.choice(PARTNERS[k]) for k in probe]
    names, safe, how = [f"k{i}" for i in range(width)], r.random() < 0.2, r.choice(HOWS)
    safe = safe and how != "not in"
    keys = make.rows(build, 6, probe)
    ansi = r.random() < 0.8
    with tempfile.TemporaryDirectory() as folder:
        fact = []
        for i in range(r.randint(1, 4)):
            rows = make.rows(probe, 5, build)
            part = table(rows, probe, names).append_column(
                "row", pa.array(range(len(fact), len(fact) + len(rows)), pa.int64())
            )
            pq.write_table(
                part, os.path.join(folder, f"{i}.parquet"), row_group_size=r.choice([1, 2, 100])
            )
            fact += rows
        dim = table(keys, build, names).append_column(
            "other", pa.array(range(len(keys)), pa.int64())
        )
        limits = r.choice([{}, {}, {"max_values": 2}, {"threshold": 20}])
        scan = ss.scan_parquet(folder)
        options = {"on": names, "how": how, "null_safe": safe, "ansi": ansi}
        waits = {"wait": r.choice([None, None, 0, 0.001]), **limits}
        try:
            plain = ss.join(scan, dim, **options, dynamic_filtering=False)
        except ss.UnsupportedForm as e:
            with pytest.raises(ss.UnsupportedForm, match=re.escape(str(e))):
                ss.join(scan, dim, **options, **waits)
            return refused(seed, fact, keys, probe, build, ansi)
        found = ss.join(scan, dim, **options, **waits)
        assert repr(plain.to_pydict()) == repr(found.to_pydict()), (seed, how, "plain")
        if not ansi:
            return 0, 0
        others = (
            found.column("other").to_pylist()
            if "other" in found.column_names
            else [None] * found.num_rows
        )
        got = sorted(zip(found.column("row").to_pylist(), others, strict=True), key=repr)
        expected = sorted(oracle_join(fact, keys, probe, build, how, [safe] * width), key=repr)
        assert got == expected, (seed, how, got, expected)
    return 0, 0


def refused(seed, fact, keys, probe, build, ansi):
    """Check that under ANSI a join is refused only if Spark raises an error for one of its keys."""
    if ansi:
        assert None in compared(fact, probe, build) + compared(keys, build, probe), (
            seed,
            "refused",
        )
    return 0, 0


def run(cases, first=0, seconds=None):
    """Run cases; return their number, the pruned containers, and all containers."""
    start, pruned, total, done = time.monotonic(), 0, 0, 0
    for seed in range(first, first + cases):
        if seconds is not None and time.monotonic() - start > seconds:
            break
        try:
            a, b = file_case(seed) if seed % FILES == 0 else case(seed)
        except AssertionError:
            raise
        except Exception as e:
            raise AssertionError((seed, repr(e))) from e
        pruned, total, done = pruned + a, total + b, done + 1
    return done, pruned, total


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seconds", type=float)
    given = parser.parse_args()
    done, pruned, total = run(given.cases, given.first, given.seconds)
    print(f"{done} joins, {pruned} of {total} containers pruned, no row lost")
