"""Dynamic filters that fail on some containers, or do not fit the schema, affect nothing else."""

import warnings

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skipstone as ss
from skipstone.bindings.filters import parts, scan
from skipstone.bindings.filters.scan import DynamicFilters
from skipstone.ir.session import Session
from tests.support.tables.delta_log import Log, Written, delta_schema

SCHEMA = pa.schema([("a", pa.int64()), ("b", pa.int64())])


def collected(keys, schema):
    collector = ss.DynamicFilterCollector(list(keys), schema)
    collector.add(pa.table(keys))
    return collector.finish()


ONE = collected({"a": [3]}, SCHEMA)
PAIR = collected({"a": [3, 5], "b": [30, 50]}, SCHEMA)


def failing(bad, evaluate=scan.evaluate):
    """Return an `evaluate` that fails if a container has one of some minima."""

    def breaks(bound, statistics):
        least = statistics.raw(("a",)).min.to_pylist()
        if found := sorted(bad.intersection(least)):
            raise ArithmeticError(f"container of {found[0]}")
        return evaluate(bound, statistics)

    return breaks


def judged(f, n=40, table=None):
    """Return a filter's verdicts over containers of one value each, and the `DynamicFilters`."""
    values = list(range(n))
    bounds = {"min": values, "max": values, "null_count": [0] * n}
    stats = ss.Statistics.from_dict({"a": bounds}, table or SCHEMA, row_count=[1] * n)
    filters = DynamicFilters((f,), stats.schema, Session())
    return filters.judged(stats, np.full(n, 2, np.uint8)).tolist(), filters


@pytest.mark.parametrize("bad", [{0}, {39}, {3}, {7, 8, 30}])
def test_a_container_that_fails_is_kept(monkeypatch, bad):
    monkeypatch.setattr(scan, "evaluate", failing(bad))
    with pytest.warns(ss.SkipstoneWarning, match="ArithmeticError: container of") as caught:
        found, filters = judged(ss.DynamicFilter(ONE))
    assert found == [1 if v in bad else 2 if v == 3 else 0 for v in range(40)]
    assert filters.effects[0].kept == {f"ArithmeticError: container of {v}": 1 for v in bad}
    assert len(caught) == len(filters.errors) == len(bad)


@pytest.mark.parametrize("how", ["anti", "not in"])
def test_what_a_join_does_not_need_is_still_pruned(monkeypatch, how):
    name = "evaluate" if how == "anti" else "evaluate_absent"
    monkeypatch.setattr(scan, name, failing({9}, getattr(scan, name)))
    with pytest.warns(ss.SkipstoneWarning):
        found, _ = judged(ss.DynamicFilter(ONE, how=how))
    assert found == [0 if v == 3 else 1 if v == 9 else 2 for v in range(40)]


def test_if_all_fail_few_are_tried(monkeypatch):
    tries = []

    def breaks(bound, statistics):
        tries.append(statistics.num_containers)
        raise ArithmeticError("all")

    monkeypatch.setattr(scan, "evaluate", breaks)
    with pytest.warns(ss.SkipstoneWarning):
        found, filters = judged(ss.DynamicFilter(ONE), 100_000)
    assert found == [1] * 100_000 and filters.effects[0].kept == {"ArithmeticError: all": 100_000}
    assert len(tries) < 4 * parts.MAX_FAILURES + 40


def test_explained_and_in_the_errors_of_splits(tmp_path, monkeypatch):
    for i in range(4):
        pq.write_table(pa.table({"a": [i], "b": [i]}), tmp_path / f"{i}.parquet")
    table = ss.scan_parquet(str(tmp_path))
    monkeypatch.setattr(scan, "evaluate", failing({1}))
    later = ss.DynamicFilter(columns={"a": "a"})
    splits = table.plan(dynamic=[later]).splits()
    with pytest.warns(ss.SkipstoneWarning):
        later.report(ONE)
    assert [s.containers for s in splits] == [(1,), (3,)]
    assert [str(e) for e in splits.errors] == ["container of 1"]
    shown = splits.plan.explain()
    assert "kept         1 row group: filter cannot be evaluated: ArithmeticError" in shown
    assert splits.plan.to_arrow().to_pydict() == {"a": [3], "b": [3]}  # rows are still filtered


# Keys that do not fit the schema.


def other(**types):
    return pa.schema(list(types.items()))


UNFIT = [
    ("no such column", other(a=pa.int64(), z=pa.int64()), "the schema has 'a', 'z'"),
    ("another type", other(a=pa.int64(), b=pa.int32()), "give the collector the schema"),
    ("no one column", other(a=pa.int64(), b=pa.int64(), B=pa.int64()), "'b'"),
]


@pytest.mark.parametrize(("table", "why"), [u[1:] for u in UNFIT], ids=[u[0] for u in UNFIT])
def test_a_key_that_fits_no_column_is_skipped(table, why):
    """The other key still prunes rows without a match. Other joins cannot use it alone."""
    f = ss.DynamicFilter(PAIR, columns={"b": "B" if "B" in table.names else "b"})
    session = Session(case_sensitive="B" not in table.names)
    stats = ss.Statistics.from_dict({"a": {"min": [3, 4], "max": [3, 4]}}, table, row_count=[1, 1])
    filters = DynamicFilters((f, ss.DynamicFilter(ONE)), table, session)
    with pytest.warns(ss.SkipstoneWarning, match="skips its key 'b'") as caught:
        assert filters.judged(stats, np.full(2, 2, np.uint8)).tolist() == [1, 0]
    assert not filters.decide_rows and filters.columns == ("a",)
    filters.judged(stats, np.full(2, 2, np.uint8))  # a second warning would fail the test
    assert len(caught) == 1 and why in str(caught[0].message)
    batch = pa.record_batch(
        {name: pa.array([3, 4, 5], t.type) for name, t in zip(table.names, table, strict=True)}
    )
    assert filters.needed_rows(batch).column("a").to_pylist() == [3]
    for how in ("anti", "not in"):
        f = ss.DynamicFilter(PAIR, how=how)
        with pytest.warns(ss.SkipstoneWarning):
            found = DynamicFilters((f,), table, Session()).judged(stats, np.full(2, 2, np.uint8))
        assert found.tolist() == [1, 1]


def test_a_filter_that_fits_nothing_leaves_the_others(tmp_path):
    for i in range(4):
        pq.write_table(pa.table({"a": [i]}), tmp_path / f"{i}.parquet")
    unfit = collected({"z": [3]}, other(z=pa.int64()))
    with pytest.warns(ss.SkipstoneWarning, match="skips its key 'z'") as caught:
        plan = ss.scan_parquet(str(tmp_path)).plan(dynamic=[unfit, ONE], limit=1)
    rows = plan.replanned().to_arrow()
    assert len(plan.files) == 1 and plan.deferred == 1 and rows.to_pydict() == {"a": [3]}
    assert len(caught) == 1


def test_hive_warns_once(tmp_path):
    for day in (1, 2):
        (tmp_path / f"day={day}").mkdir()
        pq.write_table(pa.table({"a": [day]}), tmp_path / f"day={day}/a.parquet")
    table = ss.scan_hive(str(tmp_path), partition_schema={"day": pa.int64()})
    data = collected({"day": [2], "z": [2]}, other(day=pa.int64(), z=pa.int64()))
    with pytest.warns(ss.SkipstoneWarning, match="skips its key 'z'") as caught:
        assert table.plan(dynamic=[data]).to_arrow().to_pydict() == {"a": [2], "day": [2]}
    assert len(caught) == 1


def test_a_column_of_type_char_is_named(tmp_path):
    schema = delta_schema("c STRING")
    schema["fields"][0]["metadata"] = {"__CHAR_VARCHAR_TYPE_STRING": "char(4)"}
    log = Log(tmp_path / "t", schema)
    log.add(Written([{"c": "a"}]))
    data = collected({"c": ["a"]}, pa.schema({"c": pa.string()}))
    with pytest.warns(ss.SkipstoneWarning, match="skips its key 'c': c is CHAR, whose values"):
        assert ss.scan_delta(log.folder).plan(dynamic=[data]).count() == 1


def test_keys_that_fit_give_no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert judged(ss.DynamicFilter(ONE))[0].count(0) == 39
