"""Test statistics made from arrays on a device: they mean the same as in host memory."""

import gc
import math
import random

import numpy as np
import pyarrow as pa
import pytest

import skipstone as ss
from skipstone.ir.types import Kind, from_arrow
from skipstone.kernels.gpu import gpu
from skipstone.kernels.gpu.resident import Resident
from skipstone.kernels.run.prepare import prepare
from tests.support.cuda.arrays import (
    FIXED,
    ArrowDevice,
    ByDLPack,
    Frame,
    Interface,
    Refuses,
    interface,
)
from tests.support.cuda.resident import SCHEMA, small
from tests.support.cuda.where import here
from tests.support.effort import LONG
from tests.support.predicates.predicates import predicate
from tests.support.statistics.backends import random_zone_map


def dressed(r, where, array):
    """Return a bound in one of the forms that it can have on a device, or in host memory."""
    dtype = from_arrow(array.type)
    times = pa.types.is_timestamp(array.type) and dtype.lowest in array.view(pa.int64()).to_pylist()
    plain = array.type in FIXED and dtype.kind is not Kind.DATE and not times
    ways = [array, Refuses(array)]
    ways += [interface(where, array, True), interface(where, array, False)] if plain else []
    if (
        not pa.types.is_dictionary(array.type)
        and not pa.types.is_fixed_size_binary(array.type)
        and "view" not in str(array.type)
    ):
        ways += [ArrowDevice(array, where)] * 2
    if (
        plain
        and not array.null_count
        and hasattr(where, "memory")
        and dtype.kind in (Kind.INT, Kind.FLOAT)
    ):
        ways += [ByDLPack(where.upload(np.asarray(array)))] * 2
    return r.choice(ways)


@pytest.mark.parametrize("seed", range(60 if LONG else 8))
def test_statistics_from_the_device(seed, where):
    """For any location and form of the bounds, the verdicts equal those of the same statistics in
    host memory.
    """
    r = random.Random(f"from device {seed}")
    z, schema = random_zone_map(r, r.choice((1, 64, 100)))
    host = z.statistics(schema)
    bounds = lambda name: {key: dressed(r, where, host.get(name, key)) for key in ("min", "max")}
    counts = lambda name: {
        key: interface(where, host.get(name, key), True)
        for key in ("null_count", "row_count", "nan_count")
    }
    columns = {f.name: bounds(f.name) | counts(f.name) for f in z.fields}
    stats = ss.Statistics.from_device(columns, schema, host.row_count, device=where)
    stats._contained = host._contained
    for _ in range(4):
        p = ss.PruningPredicate(predicate(r, z.fields, depth=r.choice((0, 1))).sql, schema)
        expected = p.evaluate(host, "numpy").tolist()
        assert here(where, p.evaluate(stats, out="device")).tolist() == expected, p.expr
        for backend in ("cupy", "auto", "numpy"):
            assert p.evaluate(stats, backend).tolist() == expected, (p.expr, backend)


def test_bounds_that_are_whole_stay_where_they_are(where):
    x = np.arange(200)
    low, high = where.upload(x), where.upload(x + 3)
    stats = ss.Statistics.from_device(
        {"x": {"min": low, "max": high, "null_count": where.upload(x * 0)}}, SCHEMA, device=where
    )
    p = ss.PruningPredicate("x = 77", SCHEMA)
    assert p.survivors(stats).tolist() == [74, 75, 76, 77]
    launch = stats.launch(p._prune)
    at = lambda a: a.__cuda_array_interface__["data"][0]
    assert [at(a) for a in launch.arrays] == [at(low), at(high)]
    assert stats.device_nbytes == low.nbytes + high.nbytes
    assert stats.nbytes < 200  # the bounds were not downloaded
    assert p.survivors(stats, "numpy").tolist() == [74, 75, 76, 77]


def test_mended_bounds_are_counted_and_released(where):
    low, high = where.upload(np.array([1, 9, 5])), where.upload(np.array([4, 2, 8]))
    stats = ss.Statistics.from_device({"x": {"min": low, "max": high}}, SCHEMA, device=where)
    p = ss.PruningPredicate("x = 7", SCHEMA)
    assert p.prune(stats).tolist() == [
        False,
        True,
        True,
    ]  # the second pair is inverted and therefore unknown
    assert stats.device_nbytes == 4 * 24
    stats.release()
    assert stats.device_nbytes == 2 * 24
    assert p.prune(stats).tolist() == [False, True, True]


def test_one_array_may_be_both_bounds(where):
    both = where.upload(np.array([1.0, math.nan, 5.0]))
    stats = ss.Statistics.from_device(
        {"f": {"min": both, "max": both}}, pa.schema([("f", pa.float64())]), device=where
    )
    assert ss.PruningPredicate("f = 5 OR f = 7", stats.schema).prune(stats).tolist() == [
        False,
        True,
        True,
    ]
    assert ss.PruningPredicate("f < 3", stats.schema).evaluate(stats).tolist() == [1, 1, 0]


def test_nat_is_not_a_bound(where):
    """NumPy's NaT is the least int64: as an upper bound it would prune everything."""
    schema = pa.schema([("t", pa.timestamp("us"))])
    times = np.array([5, np.iinfo(np.int64).min])
    stats = ss.Statistics.from_device(
        {"t": {"max": Interface(where.upload(times), typestr="<M8[us]")}}, schema, device=where
    )
    assert ss.PruningPredicate("t > TIMESTAMP_NTZ '2020-01-01'", schema).prune(stats).tolist() == [
        False,
        True,
    ]


def test_empty_bounds_are_unknown(where):
    given = {
        "x": {
            "min": ArrowDevice(pa.nulls(3), where),
            "max": ArrowDevice(pa.array([None, 4, None]), where),
        },
        "s": {"max": ArrowDevice(pa.array(["", None, ""]), where)},
    }
    stats = ss.Statistics.from_device(given, SCHEMA, device=where)
    assert ss.PruningPredicate("x > 5", SCHEMA).prune(stats).tolist() == [True, False, True]
    assert ss.PruningPredicate("s > 'a'", SCHEMA).prune(stats, "cupy").tolist() == [
        False,
        True,
        False,
    ]
    none = ss.Statistics.from_device(
        {
            "x": {
                "min": where.upload(np.arange(0)),
                "max": ArrowDevice(pa.array([], pa.int64()), where),
            }
        },
        SCHEMA,
        device=where,
    )
    assert ss.PruningPredicate("x > 5", SCHEMA).prune(none, "cupy").tolist() == []


def test_a_wall_clock_does_not_bound_an_instant(where):
    schema = pa.schema([("t", pa.timestamp("us", "UTC"))])
    p = ss.PruningPredicate("t > TIMESTAMP '2020-01-01'", schema)
    for zone, kept in ((None, True), ("Asia/Tokyo", False)):
        given = Interface(where.upload(np.array([5])), typestr="<M8[us]", zone=zone)
        assert p.prune(
            ss.Statistics.from_device({"t": {"max": given}}, schema, device=where)
        ).tolist() == [kept]


def test_frames(where):
    """cuDF's frames, and record batches on a device, use the column names of `from_arrow`."""
    table = small(70).to_arrow()
    batch = table.combine_chunks().to_batches()[0]
    interfaces = {
        n: Interface(where.upload(np.asarray(c)))
        for n, c in zip(table.column_names, batch.columns, strict=True)
        if n[0] != "s"
    }
    texts = {n: Refuses(batch.column(n)) for n in ("s.min", "s.max")}
    frames = [
        Frame({**interfaces, **texts, "path": Refuses(batch.column("s.min"))}),
        ArrowDevice(batch, where),
        ArrowDevice(batch.slice(0), where),
    ]
    p = ss.PruningPredicate(
        "x > 1099511627800 AND f < 3e12 AND s > '003' AND x IS NOT NULL", SCHEMA
    )
    for frame in frames:
        stats = ss.Statistics.from_device(frame, SCHEMA, device=where)
        assert stats.columns == ("x", "f", "s")
        assert p.evaluate(stats, "cupy").tolist() == p.evaluate(small(70)).tolist()
    part = ss.Statistics.from_device(ArrowDevice(batch.slice(5, 40), where), SCHEMA, device=where)
    assert p.evaluate(part, "cupy").tolist() == p.evaluate(small(70)).tolist()[5:45]


def test_statistics_of_a_device_are_whole_statistics(where, tmp_path):
    """All uses of statistics in host memory work."""
    host = small()
    stats = ss.Statistics.from_device(
        ArrowDevice(host.to_arrow().combine_chunks().to_batches()[0], where), SCHEMA, device=where
    )
    assert stats.to_arrow().equals(host.to_arrow())
    assert stats.get("x", "max").equals(host.get("x", "max"))
    p = ss.PruningPredicate("x > 1099511627800 AND f < 3e12", SCHEMA)
    told = [
        line
        for line in p.explain(stats).splitlines()
        if not line.startswith(("device", "backends"))
    ]
    assert told == [
        line for line in p.explain(host).splitlines() if not line.startswith("backends")
    ]
    stats.save(tmp_path / "x")
    assert p.prune(ss.Statistics.load(tmp_path / "x")).tolist() == p.prune(host).tolist()
    indexed = stats.index(block=20)
    assert indexed.device == where.name
    assert p.prune(indexed, "cupy").tolist() == p.prune(host).tolist()
    assert p.prune(stats.to_device(where), "cupy").tolist() == p.prune(host).tolist()


@pytest.mark.parametrize("null_count, rows", [(1, 0b10), (-1, 0b10), (-1, 0b11)])
def test_a_batch_with_null_rows_is_refused(null_count, rows, where):
    """The value of a null row is not a bound. If nulls are not counted, the mask tells if there are
    any.
    """
    batch = pa.record_batch({"x.min": pa.array([7, 1]), "x.max": pa.array([7, 9])})
    with pytest.raises(ss.StatisticsError, match="has null rows, or may have some"):
        ss.Statistics.from_device(
            ArrowDevice(batch, where, rows=rows, null_count=null_count), SCHEMA, device=where
        )
    counted = ss.Statistics.from_device(
        ArrowDevice(batch, where, rows=0b11, null_count=0), SCHEMA, device=where
    )
    assert ss.PruningPredicate("x = 3", SCHEMA).prune(counted).tolist() == [False, True]


def logged(where, monkeypatch):
    """Record the calls of a device from now on."""
    log, start, settle = [], where.start, where.settle
    monkeypatch.setattr(where, "start", lambda *given: (log.append("start"), start(*given))[1])
    monkeypatch.setattr(where, "settle", lambda: (log.append("settle"), settle())[1])
    return log


def inverted(where):
    low, high = where.upload(np.array([1, 9, 5])), where.upload(np.array([4, 2, 8]))
    return ss.Statistics.from_device({"x": {"min": low, "max": high}}, SCHEMA, device=where)


def test_mended_bounds_are_there_for_every_stream(where, monkeypatch):
    stats = inverted(where)
    log = logged(where, monkeypatch)
    stats.launch(ss.PruningPredicate("x = 7", SCHEMA).program)
    assert log[-2:] == ["start", "settle"]


@pytest.mark.parametrize("way", ["released", "dropped"])
def test_mended_bounds_are_dropped_when_nothing_reads_them(way, where, monkeypatch):
    stats, p = inverted(where), ss.PruningPredicate("x = 7", SCHEMA)
    p.prune(stats, out="device")
    kept = [c.low for c in stats._raw._columns]
    assert len(kept) == 1
    monkeypatch.setattr(
        where,
        "settle",
        lambda: kept.append(len(stats._raw._columns) if way == "released" else None),
    )
    if way == "released":
        stats.release()
        assert kept[1:] == [1] and not len(stats._raw._columns)  # synchronized, and then dropped
    else:
        gc.disable()
        try:
            columns = stats._raw._columns
            del stats
            assert kept[1:] == [None] and not len(columns)
        finally:
            gc.enable()


WRONG = {
    "a matrix": (
        lambda d: {"x": {"min": d.upload(np.arange(4)).reshape(2, 2)}},
        "x.min is an array of shape",
    ),
    "every other value": (
        lambda d: {"x": {"min": Interface(d.upload(np.arange(4)), strides=(16,))}},
        "expected one dimension without gaps between values",
    ),
    "another order of bytes": (
        lambda d: {"x": {"min": Interface(d.upload(np.arange(4)), typestr=">i8")}},
        "in this machine's byte order",
    ),
    "a type of nobody's": (
        lambda d: {"x": {"min": Interface(d.upload(np.arange(4)), typestr="<q9")}},
        "has values of type '<q9'",
    ),
    "complex numbers": (
        lambda d: {"x": {"min": d.upload(np.zeros(2, "c8"))}},
        "expected numbers, booleans or datetime64",
    ),
    "lengths": (
        lambda d: {"x": {"min": d.upload(np.arange(4)), "max": d.upload(np.arange(5))}},
        "x.max has 5 values and x.min has 4",
    ),
    "a column": (lambda d: {"y": {"min": d.upload(np.arange(4))}}, "a statistic names 'y'"),
    "a statistic": (lambda d: {"x": {"mean": d.upload(np.arange(4))}}, "has a statistic 'mean'"),
    "lists": (
        lambda d: {"x": {"min": ArrowDevice(pa.array([[1]]), d)}},
        "is an Arrow array of type list<",
    ),
    "another device": (
        lambda d: {"x": {"min": ArrowDevice(pa.array([1]), d, kind=7)}},
        "lies on a device of Arrow's type 7",
    ),
    "one array": (lambda d: ArrowDevice(pa.array([1]), d), "expected a record batch"),
    "a frame without names": (
        lambda d: Frame({"x": d.upload(np.arange(2))}),
        "expected names such as 'x.min'",
    ),
    "a number": (lambda d: 5, "was given a int; expected a mapping of columns, a cuDF frame"),
}


@pytest.mark.parametrize("make, says", WRONG.values(), ids=WRONG)
def test_invalid_statistics_are_named(make, says, where):
    with pytest.raises(ss.SkipstoneError, match=says):
        ss.Statistics.from_device(make(where), SCHEMA, device=where)


def test_a_launch_is_the_same_wherever_its_inputs_lie(where):
    """Constant planes, and bounds that are unknown everywhere, are folded away there too."""
    empty = ss.Statistics.from_device(
        {"x": {"min": Interface(where.upload(np.arange(3)), where.upload(np.zeros(1, np.uint32)))}},
        SCHEMA,
        device=where,
    )
    p = ss.PruningPredicate("x > 5", SCHEMA)
    launch = empty.launch(p.program)
    assert (launch.roots, launch.arrays) == (
        prepare(p.program, ss.Statistics.from_dict({"x": {"min": [None] * 3}}, SCHEMA)).roots,
        [],
    )
    resident = Resident(where)
    assert where.download(gpu.verdicts(launch, resident)).tolist() == [1, 1, 1]
    assert resident.nbytes == 0
