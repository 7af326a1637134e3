"""Dynamic filters that arrive late or fail, and splits for several readers.

Ids in test names are those of the conformance table.
"""

import os
import threading
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skipstone as ss
from tests.support.joins.dynamic_cases import collected, keys, schema


def ids(splits):
    return [int(os.path.basename(s.path).removesuffix(".parquet")) for s in splits]


# Completing, combining, timing.


def test_P03_builders_are_not_known_yet():
    f = ss.DynamicFilter(columns={"k": "k"}, builders=None)
    f.report(keys(1), builder="a")
    assert f.data is None and not f.complete
    f.expect(1)
    assert f.data == keys(1)
    two = ss.DynamicFilter(builders=2)
    two.report(keys(1), 0)
    assert two.data is None
    two.report(keys(2), 1)
    assert two.data == keys(1, 2)
    with pytest.raises(ss.DynamicFilterError, match="all 2 builders have reported"):
        two.report(keys(3), 2)


def test_P10_a_caller_cancels_its_wait():
    f = ss.DynamicFilter()
    first, second = f.future(), f.future()
    assert first.cancel()
    f.report(keys(1))
    assert second.result(5) == keys(1) and f.complete


def test_P11_not_awaitable():
    f = ss.DynamicFilter(awaitable=False)
    start = time.monotonic()
    assert f.wait(30) is None and time.monotonic() - start < 10


def test_P12_late(table):
    late = ss.DynamicFilter(columns={"k": "k"})
    assert late.wait(0.01) is None
    splits = table.plan(dynamic=[late]).splits(wait=0.01)
    assert ids(splits) == list(range(6)) and "it is late" in splits.plan.explain()


def test_P14_P15_a_builder_runs_again(table):
    splits = table.plan(dynamic=[ss.DynamicFilter(columns={"k": "k"})]).splits()
    splits.on_filter(keys(1, 2))
    splits.on_filter(ss.DynamicFilteringEvent(keys(2, 1, 1)))
    with pytest.raises(ss.DynamicFilterError, match="recomputed filter differs"):
        splits.on_filter(keys(3))
    assert ids(splits) == [0]
    given = table.plan().splits()
    given.on_filter(keys(1))
    given.on_filter(keys(1))
    with pytest.raises(ss.DynamicFilterError, match="recomputed filter differs"):
        given.on_filter(keys(2))


def test_which_filter_is_meant(table):
    days = collected(schema(day=pa.int64()), {"day": [1, 3]})
    splits = table.plan(dynamic=[keys(11, 12, 35, 41)]).splits()
    splits.on_filter(days)  # has other columns, so it is a new filter
    assert splits.remaining == 2
    splits.on_filter(keys(35), filter=ss.DynamicFilter())
    assert ids(splits) == [3]
    two = table.plan(
        dynamic=[
            ss.DynamicFilter(columns={"k": "k"}),
            second := ss.DynamicFilter(columns={"k": "day"}),
        ]
    ).splits()
    with pytest.raises(ss.DynamicFilterError, match="say which"):
        two.on_filter(keys(5))
    two.on_filter(keys(5), filter=second)
    assert ids(two) == [5]


def test_waiting(table):
    f = ss.DynamicFilter(columns={"k": "k"})
    threading.Timer(0.05, lambda: f.report(keys(31))).start()
    splits = table.plan(dynamic=[f]).splits(wait=30)
    assert ids(splits) == [3]


# Handing out splits.


def test_H02_before_the_first_request(table):
    splits = table.plan().splits()
    splits.on_filter(keys(11, 12, 35))
    assert ids(splits) == [1, 3] and splits.next_split() is None


def test_nothing_is_repeated_or_withdrawn(table):
    splits = table.plan().splits(min_desired_splits=12)
    first = [splits.next_split() for _ in range(3)]
    assert ids(first) == [0, 0, 1] and [s.row_groups for s in first] == [(0,), (1,), (0,)]
    splits.on_filter(keys(1, 12, 17, 35))
    rest = list(splits)
    assert [(i, s.row_groups) for i, s in zip(ids(rest), rest, strict=True)] == [
        (1, (1,)),
        (3, (1,)),
    ]
    splits.return_split(first[1])  # k = 5..9, which the filter has ruled out by now
    assert splits.next_split() is None
    splits.return_split(first[0])
    assert splits.next_split() == first[0]
    with pytest.raises(ss.DynamicFilterError, match="not handed out"):
        splits.return_split(first[1])


def test_splits_are_read(table):
    splits = table.plan("k >= 7", columns=["k"]).splits()
    splits.on_filter(keys(8, 33))
    found = [s.to_arrow().column("k").to_pylist() for s in splits]
    assert [8 in found[0], 33 in found[1], len(found)] == [True, True, 2] and sum(
        b.num_rows for s in table.plan().splits() for b in s.to_batches()
    ) == 60


def test_readers_and_hosts(table):
    hosts = {f"{i}.parquet": ["even"] if i % 2 == 0 else ["odd"] for i in range(6)}
    splits = table.plan().splits([1, 2], hosts=lambda path: hosts[os.path.basename(path)])
    assert splits.next_split(reader=7) is None and splits.remaining == 6
    got = [splits.next_split("odd", reader=1) for _ in range(4)]
    assert ids(got) == [1, 3, 5, 0]
    splits.register(7)
    splits.add_splits_back([got[0]], reader=1)
    splits.return_split(got[3])
    assert ids([splits.next_split("odd", reader=7), splits.next_split("even", reader=7)]) == [1, 0]
    assert splits.next_split(reader=1) is None and ids(
        [splits.next_split("nowhere", reader=7)]
    ) == [2]


@pytest.mark.parametrize("end", ["fail", "cancel"])
def test_failed_filters_keep_everything(table, end):
    f = ss.DynamicFilter(columns={"k": "k"})
    splits = table.plan("k >= 10", dynamic=[f]).splits(wait=30)
    threading.Timer(0.02, lambda: f.fail(OSError("gone")) if end == "fail" else f.cancel()).start()
    assert ids(splits) == [1, 2, 3, 4, 5]
    assert [str(e) for e in splits.errors] == (["gone"] if end == "fail" else [])
    assert f.report(keys(1)) is False


def test_exceptions_while_filtering_keep_everything(table, monkeypatch):
    from skipstone.bindings.filters import scan

    def breaks(*args):
        raise ZeroDivisionError("of a filter")

    monkeypatch.setattr(scan, "evaluate", breaks)
    splits = table.plan().splits()
    with pytest.warns(ss.SkipstoneWarning, match="ZeroDivisionError: of a filter"):
        splits.on_filter(keys(1))
    later = table.plan(dynamic=[f := ss.DynamicFilter(columns={"k": "k"})]).splits()
    with pytest.warns(ss.SkipstoneWarning, match="ZeroDivisionError: of a filter"):
        f.report(keys(1))
    assert (
        ids(splits) == ids(later) == list(range(6)) and len(splits.errors) == len(later.errors) == 1
    )


def test_waiting_is_counted_from_the_first_request(table):
    f = ss.DynamicFilter(columns={"k": "k"})
    splits = table.plan(dynamic=[f]).splits(wait=0.5)
    time.sleep(0.6)  # a reader that starts late still waits
    threading.Timer(0.1, lambda: f.report(keys(3))).start()
    assert len(list(splits)) == 1


def test_stopped(table):
    f = ss.DynamicFilter(columns={"k": "k"})
    splits = table.plan(dynamic=[f]).splits(wait=60)
    threading.Timer(0.02, splits.stop).start()
    start = time.monotonic()
    assert splits.next_split() is None and time.monotonic() - start < 30
    f.report(keys(1))
    assert splits.remaining == 0


def test_one_partition_without_values(table):
    """A table without partition columns is pruned by its statistics alone."""
    empty = ss.scan_parquet(table.files[0]).plan(
        dynamic=[ss.DynamicFilter(keys(1), columns={"k": "day"})]
    )
    assert (
        empty.files == ()
        and ss.scan_parquet(table.files[0])
        .plan(dynamic=[ss.DynamicFilter(keys(0), columns={"k": "day"})])
        .count()
        == 10
    )


@pytest.mark.parametrize("order", ["k", "k DESC", "k DESC NULLS FIRST", "v, k DESC"])
def test_top_k_while_reading(tmp_path, order):
    r = np.random.default_rng(2)
    for i in range(40):
        k = r.integers(0, 1000, 10) + (i * 37) % 40 * 20
        pq.write_table(
            pa.table(
                {
                    "k": pa.array(k, mask=r.random(10) < 0.1 * (i == 17)),
                    "v": r.integers(i // 4, i // 4 + 3, 10),
                }
            ),
            tmp_path / f"{i:02}.parquet",
        )
    plan = ss.scan_parquet(str(tmp_path)).plan("k % 2 = 0 OR k IS NULL", order_by=order, limit=5)
    splits, found = plan.splits(), []
    for split in splits:
        rows = split.to_arrow()
        splits.offer(rows)
        found.append(rows)
    from skipstone.bindings.plans.order import first_rows

    best = first_rows(pa.concat_tables(found), plan.order, 5)
    assert best.column("k").to_pylist() == plan.to_arrow().column("k").to_pylist()
    assert len(found) < 20


@pytest.mark.parametrize("late", [0.0, 0.005])
def test_ten_readers(table, late):
    splits = table.plan().splits(range(10), min_desired_splits=12)
    got, guard = [], threading.Lock()

    def read(reader):
        while (split := splits.next_split(reader=reader)) is not None:
            time.sleep(0.002)
            with guard:
                got.append(split)

    readers = [threading.Thread(target=read, args=(i,)) for i in range(10)]
    for t in readers:
        t.start()
    time.sleep(late)
    splits.on_filter(keys(31, 52))
    for t in readers:
        t.join()
    containers = [c for s in got for c in s.containers]
    assert len(containers) == len(set(containers))
    assert {6, 10} <= set(containers)
    assert np.isin(
        [31, 52], np.concatenate([s.to_arrow().column("k").to_numpy() for s in got])
    ).all()


#    options of `splits`            in the error
MISTAKES = [
    ({"readers": 3},                "readers is 3; expected numbers of readers"),
    ({"min_desired_splits": -1},    "min_desired_splits is -1; expected a positive integer"),
    ({"min_desired_splits": "4"},   "min_desired_splits is '4'; expected"),
    ({"hosts": {"a": ["b"]}},       "hosts is of the type dict; expected a function"),
    ({"wait": None},                "wait is None; expected a number of seconds"),
]  # fmt: skip


@pytest.mark.parametrize(("options", "text"), MISTAKES, ids=[c[1] for c in MISTAKES])
def test_mistakes(table, options, text):
    with pytest.raises(ss.DynamicFilterError, match=text):
        table.plan().splits(**options)
