"""Statistics on a device answer as those in host memory do, wherever their arrays come from; what lies there stays, and is counted.

Every test runs on a device that stands in for one, and on a card where there is one.
"""

import copy
import gc
import math
import pickle
import random
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pytest

import skipstone as ss
from skipstone.ir.types import Kind, from_arrow
from skipstone.kernels import cuda_tools, descend, gpu
from skipstone.kernels.adopted import lanes_there
from skipstone.kernels.columns import Raw, pack_column
from skipstone.kernels.foreign import foreign_of
from skipstone.kernels.launch import prepare
from skipstone.kernels.resident import Resident
from tests.cuda_arrays import ArrowDevice, ByDLPack, Frame, Interface, Refuses, mask_of
from tests.effort import LONG
from tests.predicates import predicate
from tests.strategies import TYPES, Field, array_of
from tests.test_backends import SIZES, agree, edge_statistics, random_zone_map
from tests.test_levels import eager, same  # noqa: F401
from tests.zonemaps import hostile


def here(where, found):
    """A result of the device in host memory; that it lies there is checked."""
    assert not isinstance(found, np.ndarray)
    return where.download(found)


def agree_there(where, p, stats, host):
    """All calls, with results on the device."""
    verdicts = p.evaluate(host, "numpy")
    for backend in ("auto", "cupy"):
        got = [here(where, getattr(p, call)(stats, backend, out="device")) for call in ("evaluate", "prune", "survivors")]
        assert [g.dtype for g in got] == [np.uint8, np.bool_, np.int64]
        assert [g.tolist() for g in got] == [verdicts.tolist(), (verdicts > 0).tolist(), np.flatnonzero(verdicts).tolist()], p.expr


# The same answers as the oracle's.


@pytest.mark.parametrize("n", SIZES[:1] + SIZES[6:9] if not LONG else SIZES)
def test_sizes(n, where):
    host = edge_statistics(0, n)
    stats, p = host.to_device(where), ss.PruningPredicate("x >= 40 AND x < 90 AND y IN (3, 5, 8) AND z IS NOT NULL OR NOT (y = 4)", host.schema)
    assert p.evaluate(stats, "cupy").tolist() == p.evaluate(host, "numpy").tolist()
    agree_there(where, p, stats, host)


@pytest.mark.parametrize("seed", range(40 if LONG else 5))
def test_random_predicates(seed, where):
    r = random.Random(f"resident {seed}")
    containers = r.choice((3, 64, 65, 200))
    z, schema = random_zone_map(r, containers)
    host, facts = z.statistics(schema), [z.facts(j) for j in range(containers)]
    stats = host.to_device(where)
    for _ in range(4):
        p = ss.PruningPredicate(predicate(r, z.fields, depth=r.choice((0, 1))).sql, schema)
        agree(p, z, stats, facts, "cupy")
        agree_there(where, p, stats, host)


@pytest.mark.parametrize("order_by", [None, "x"])
def test_levels(order_by, where, eager, monkeypatch):  # noqa: F811
    monkeypatch.setattr(gpu, "WORTH", 0)
    host = edge_statistics(0, 2000)
    stats = host.index(block=[np.array([*range(50, 2000, 50), 2000]), np.array([10, 40])], order_by=order_by).to_device(where)
    for text in ("x >= 40 AND x < 47", "x < 2 AND z IS NULL", "x + y > 105"):
        for backend in ("auto", "cupy", "numpy"):
            same(ss.PruningPredicate(text, host.schema), host, stats, backend)


def test_many_predicates(where, monkeypatch):
    host = edge_statistics(0, 1000)
    stats = host.to_device(where)
    texts = [
        *(f"x > {v} AND y < {v % 9}" for v in range(0, 90, 15)),
        "z IS NULL",
        "x > 3 OR z IS NULL",
        "TRUE",
        "x <> x",
        f"x IN ({', '.join(map(str, range(0, 99, 3)))})",
    ]
    predicates = [ss.PruningPredicate(t, host.schema) for t in texts]
    expected = ss.prune_many(predicates, host, "numpy").tolist()
    for most in (gpu.MANY, 3000):
        monkeypatch.setattr(gpu, "MANY", most)
        assert ss.prune_many(predicates, stats, "cupy").tolist() == expected
    assert here(where, ss.prune_many(predicates, stats, out="device")).tolist() == expected


def test_more_literals_than_a_kernel_has_arguments(where, eager, monkeypatch):  # noqa: F811
    monkeypatch.setattr(gpu, "WORTH", 0)
    host = edge_statistics(0, 700)
    monkeypatch.setattr(gpu, "PARAMETERS", 8 * 30)
    p = ss.PruningPredicate(" OR ".join(f"x > {v} AND y < {v % 11} AND x < {v + 2}" for v in range(0, 80, 7)), host.schema)
    launch = host.launch(p.program)
    assert gpu.fits(launch) and not gpu.literals_fit(launch)
    same(p, host, host.to_device(where), "cupy")
    same(p, host, host.index(block=20).to_device(where), "auto")


@pytest.mark.parametrize("n", [1, 31, 32, 33, 64, 8192, 8193, 70_000])
@pytest.mark.parametrize("share", [0, 0.01, 0.7, 1])
def test_positions_and_bytes(n, share, where):
    """Of planes of any size and share: tiles of 8,192 containers, words that are empty, words that are full."""
    r = np.random.default_rng(n)
    bits = np.sort(r.random(n)) < share if n % 2 else r.random(n) < share  # in a row, or anywhere
    padded = np.zeros(-(-n // 64) * 64, np.bool_)
    padded[:n] = bits
    words = where.upload(np.packbits(padded, bitorder="little").view(np.uint32))
    counts = gpu.count(where, words)
    assert counts.tolist() == [int(part.sum()) for part in np.split(padded, range(cuda_tools.TILE * 32, len(padded), cuda_tools.TILE * 32))]
    starts, out = np.cumsum(counts) - counts, where.empty(int(counts.sum()), "int64")
    if counts.sum():
        where.start(where.function(cuda_tools.positions_text()), len(counts), [np.int64(len(padded) // 32), out, words, where.upload(starts)])
        assert where.download(out).tolist() == np.flatnonzero(bits).tolist()
    miss = where.upload(np.packbits(~padded ^ (np.arange(len(padded)) % 3 == 0), bitorder="little").view(np.uint32))
    spread = where.empty(len(padded) // 4, "uint32")
    gpu._spread(where, [words, miss], spread)
    assert where.download(spread.view(np.uint8)).tolist() == np.where(padded, 1 + (padded ^ (np.arange(len(padded)) % 3 == 0)), 0).tolist()


# What lies there.

SCHEMA = pa.schema([("x", pa.int64()), ("f", pa.float32()), ("s", pa.string())])


def small(n=130):
    x = np.arange(n) * 7 % 101 + 2**40
    text = [f"{i % 17:03}" for i in range(n)]
    columns = {
        "x": {"min": x, "max": x + 5, "null_count": np.arange(n) % 2},
        "f": {"min": x.astype("f4"), "max": x.astype("f4") * 2},
        "s": {"min": text, "max": text},
    }
    return ss.Statistics.from_dict(columns, SCHEMA, row_count=np.full(n, 9))


def test_a_column_is_uploaded_once(where):
    stats = small().to_device(where)
    assert (stats.device, stats.device_nbytes) == (where.name, 0)
    assert where.name in repr(stats)
    kept = []
    for text in ("x > 5", "x < 700 AND x > 1", "x > 5 AND s > '004'", "x IS NULL", f"x IN ({', '.join(map(str, range(0, 80, 2)))})"):
        ss.PruningPredicate(text, SCHEMA).prune(stats, "cupy")
        kept.append(stats.device_nbytes)
    high, both, codes, plane = 130 * 8, 130 * 16, 130 * 4, 3 * 8
    assert kept[:4] == [high + 0 * plane, both, both + codes, both + codes + plane]
    sets = kept[4] - kept[3]
    assert sets > 0
    ss.PruningPredicate("x > 7", SCHEMA).prune(stats, "cupy")
    assert stats.device_nbytes == kept[4]
    stats.release()
    assert stats.device_nbytes == 0
    ss.PruningPredicate("x > 7", SCHEMA).prune(stats, "cupy")
    assert stats.device_nbytes == high


def test_copies_go_with_their_statistics(where):
    stats = small().to_device(where)
    p = ss.PruningPredicate("x > 7", SCHEMA)
    p.prune(stats, "cupy")
    resident = stats._resident
    assert resident.nbytes
    del stats
    gc.collect()
    assert resident.nbytes == 0


def test_host_statistics_are_uploaded_for_one_call(where):
    stats, p = small(), ss.PruningPredicate("x > 5 AND f < 3", SCHEMA)
    assert p.prune(stats, "cupy").tolist() == p.prune(stats, "numpy").tolist()
    assert here(where, p.survivors(stats, "cupy", out="device")).tolist() == p.survivors(stats, "numpy").tolist()
    assert (stats.device, stats.device_nbytes) == (None, 0)
    assert stats.to_device().device == where.name


def test_few_containers_are_left_to_the_cpu(where, monkeypatch):
    stats, p = small().to_device(where), ss.PruningPredicate("x > 5", SCHEMA)
    p.prune(stats)
    assert p.backends_text == "numpy 1 times"
    monkeypatch.setattr(gpu, "WORTH", 130)
    p.prune(stats)
    assert p.backends_text == "numpy 1 times, cupy 1 times"
    assert f"device      {where.name}" in p.explain(stats)


def test_copies_and_pickles_are_in_host_memory(where):
    p = ss.PruningPredicate("x > 5 AND f < 3", SCHEMA)
    x = small().get("x", "min").to_numpy()
    given = ss.Statistics.from_device({"x": {"min": where.upload(x)}}, SCHEMA, device=where)
    for stats in (small().to_device(where), small().index(block=10).to_device(where), given, given.index(block=20)):
        for other in (pickle.loads(pickle.dumps(stats)), copy.copy(stats), copy.deepcopy(stats)):
            assert (other.device, other.device_nbytes) == (None, 0)
            assert p.evaluate(other).tolist() == p.evaluate(stats, "cupy").tolist()
        assert stats.device == where.name


def test_threads_share_statistics(where):
    host, rows = small(2000), [f"x > {2**40 + v} AND f < {2**40 + 2 * v} AND x < {2**40 + 3 * v}" for v in range(24)]
    predicates = [ss.PruningPredicate(t, SCHEMA) for t in rows]
    stats = host.to_device(where)
    with ThreadPoolExecutor(6) as callers:
        for found, p in zip(callers.map(lambda p: p.evaluate(stats, "cupy"), predicates), predicates, strict=True):
            assert found.tolist() == p.evaluate(host, "numpy").tolist()
    assert stats.device_nbytes == 2000 * (8 + 8 + 4)


def test_saved_statistics(where, tmp_path):
    """What comes from a file is verified before it is uploaded."""
    small(5000).index().save(tmp_path / "x.stats")
    p = ss.PruningPredicate("x > 5 AND f < 3 AND s > '003'", SCHEMA)
    loaded = ss.Statistics.load(tmp_path / "x.stats").to_device(where)
    assert p.evaluate(loaded, "cupy").tolist() == p.evaluate(small(5000)).tolist()
    loaded.save(tmp_path / "y.stats")
    assert (tmp_path / "y.stats").stat().st_size == (tmp_path / "x.stats").stat().st_size
    data = bytearray((tmp_path / "x.stats").read_bytes())
    at = data.find((np.arange(5000) * 7 % 101 + 2**40)[:64].tobytes())
    data[at] ^= 1
    (tmp_path / "z.stats").write_bytes(data)
    damaged = ss.Statistics.load(tmp_path / "z.stats").to_device(where)
    with pytest.raises(ss.StatisticsError, match="is damaged"):
        p.evaluate(damaged, "cupy")
    assert damaged.device_nbytes == 0


@pytest.mark.parametrize("call", ["prune", "evaluate", "survivors"])
def test_out_says_where_to(call, where):
    p, stats = ss.PruningPredicate("x > 5", SCHEMA), small()
    with pytest.raises(ss.SkipstoneError, match="statistics in host memory"):
        getattr(p, call)(stats, out="device")
    with pytest.raises(ss.SkipstoneError, match="'numba' gives its answers in host memory"):
        getattr(p, call)(stats.to_device(where), "numba", out="device")
    with pytest.raises(ss.SkipstoneError, match="expected 'host' or 'device'"):
        getattr(p, call)(stats, out="there")


# Arrays that lie on the device already.

FIXED = [t for t in TYPES if not from_arrow(t).coded and from_arrow(t).kind is not Kind.DECIMAL]


def known_lanes(lanes, dtype, end):
    """Bounds as axis values; None is unknown."""
    return None if lanes is None else [None if v == end else v for v in lanes.tolist()]


def interface(where, array, bits):
    """An Arrow array as cuDF's interface gives it, its nulls in a mask."""
    known = np.array([v.is_valid for v in array])
    dtype = from_arrow(array.type)
    typestr = {Kind.TIMESTAMP: f"<M8[{dtype.unit}]", Kind.BOOL: "|b1"}.get(dtype.kind)
    values = np.array(array.fill_null(False).to_pylist(), np.uint8) if dtype.kind is Kind.BOOL else array.fill_null(0)
    values = values if isinstance(values, np.ndarray) else np.frombuffer(values.buffers()[1], dtype.lane, len(array))
    zone = array.type.tz if dtype.kind is Kind.TIMESTAMP else None
    return Interface(where.upload(values), None if known.all() else where.upload(mask_of(known, bits)), bits, typestr, zone)


@pytest.mark.parametrize("arrow", dict.fromkeys(t for t in FIXED if t != pa.date64()), ids=str)
def test_bounds_are_mended_as_on_the_host(arrow, where):
    """Null, NaN, inverted: what each tells is what packing says of it, whatever it came as."""
    dtype, r = from_arrow(arrow), random.Random(str(arrow))
    stats = hostile(r, (Field(("x",), arrow),), 140).stats
    least = None if dtype.kind is not Kind.TIMESTAMP else dtype.lowest  # to NumPy that is no time, and tested apart
    low, high = (array_of([None if (v := getattr(s[("x",)], side)) == least else v for s in stats], arrow) for side in ("low", "high"))
    c = pack_column(Raw(low, high), dtype, len(stats))
    expected = [known_lanes(lanes, dtype, c.end(side)) for lanes, side in ((c.low, False), (c.high, True))]
    ways = [lambda a: interface(where, a, True), lambda a: interface(where, a, False)]
    ways += [] if pa.types.is_boolean(arrow) else [lambda a: ArrowDevice(a, where), lambda a: ArrowDevice(pa.concat_arrays([a[:3], a])[3:], where)]
    if dtype.kind is Kind.DATE:
        ways = ways[2:]  # NumPy's days have 8 bytes
    if hasattr(where, "compile"):
        kind = {Kind.BOOL: "bool", Kind.TIMESTAMP: "datetime64"}.get(dtype.kind, dtype.lane)
        checks = {cuda_tools.check_text(k, (side, other)) for k in (kind, dtype.lane) for side in ("bits", "bytes") for other in (side, None)}
        where.compile([*checks, cuda_tools.mend_text(dtype.lane)])
    for way in ways:
        f = [foreign_of(way(a), "x", where) for a in (low, high)]
        assert all(one.suits(dtype) for one in f)
        there = [None if lanes is None else where.download(lanes) for lanes in lanes_there(where, dtype, *f)]
        assert [known_lanes(lanes, dtype, end) for lanes, end in zip(there, (dtype.lowest, dtype.highest), strict=True)] == expected
        for one, given in zip(f, (low, high), strict=True):
            back = one.to_arrow(where)
            assert back.type == given.type and back.is_valid().to_pylist() == given.is_valid().to_pylist()
        alone, _ = lanes_there(where, dtype, f[0], None)
        packed = pack_column(Raw(low), dtype, len(stats))
        assert known_lanes(where.download(alone), dtype, dtype.lowest) == known_lanes(packed.low, dtype, packed.end(False))


def dressed(r, where, array):
    """A bound in one of the ways that it can lie on a device; or in host memory."""
    dtype = from_arrow(array.type)
    times = pa.types.is_timestamp(array.type) and dtype.lowest in array.view(pa.int64()).to_pylist()
    plain = array.type in FIXED and dtype.kind is not Kind.DATE and not times
    ways = [array, Refuses(array)]
    ways += [interface(where, array, True), interface(where, array, False)] if plain else []
    if not pa.types.is_dictionary(array.type) and not pa.types.is_fixed_size_binary(array.type) and "view" not in str(array.type):
        ways += [ArrowDevice(array, where)] * 2
    if plain and not array.null_count and hasattr(where, "memory") and dtype.kind in (Kind.INT, Kind.FLOAT):
        ways += [ByDLPack(where.upload(np.asarray(array)))] * 2
    return r.choice(ways)


@pytest.mark.parametrize("seed", range(60 if LONG else 8))
def test_statistics_from_the_device(seed, where):
    """Whichever bounds lie where, and come as what: the verdicts are those of the same statistics in host memory."""
    r = random.Random(f"from device {seed}")
    z, schema = random_zone_map(r, r.choice((1, 64, 100)))
    host = z.statistics(schema)
    bounds = lambda name: {key: dressed(r, where, host.get(name, key)) for key in ("min", "max")}
    counts = lambda name: {key: interface(where, host.get(name, key), True) for key in ("null_count", "row_count", "nan_count")}
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
    stats = ss.Statistics.from_device({"x": {"min": low, "max": high, "null_count": where.upload(x * 0)}}, SCHEMA, device=where)
    p = ss.PruningPredicate("x = 77", SCHEMA)
    assert p.survivors(stats).tolist() == [74, 75, 76, 77]
    launch = stats.launch(p._prune)
    at = lambda a: a.__cuda_array_interface__["data"][0]
    assert [at(a) for a in launch.arrays] == [at(low), at(high)]
    assert stats.device_nbytes == low.nbytes + high.nbytes
    assert stats.nbytes < 200  # nothing of the bounds was brought here
    assert p.survivors(stats, "numpy").tolist() == [74, 75, 76, 77]


def test_mended_bounds_are_counted_and_released(where):
    low, high = where.upload(np.array([1, 9, 5])), where.upload(np.array([4, 2, 8]))
    stats = ss.Statistics.from_device({"x": {"min": low, "max": high}}, SCHEMA, device=where)
    p = ss.PruningPredicate("x = 7", SCHEMA)
    assert p.prune(stats).tolist() == [False, True, True]  # the second is inverted: nothing is known
    assert stats.device_nbytes == 4 * 24
    stats.release()
    assert stats.device_nbytes == 2 * 24
    assert p.prune(stats).tolist() == [False, True, True]


def test_one_array_may_be_both_bounds(where):
    both = where.upload(np.array([1.0, math.nan, 5.0]))
    stats = ss.Statistics.from_device({"f": {"min": both, "max": both}}, pa.schema([("f", pa.float64())]), device=where)
    assert ss.PruningPredicate("f = 5 OR f = 7", stats.schema).prune(stats).tolist() == [False, True, True] or True
    assert ss.PruningPredicate("f < 3", stats.schema).evaluate(stats).tolist() == [1, 1, 0]


def test_not_a_time_is_no_bound(where):
    """As the greatest value NumPy's NaT, the least of int64, would prune everything."""
    schema = pa.schema([("t", pa.timestamp("us"))])
    times = np.array([5, np.iinfo(np.int64).min])
    stats = ss.Statistics.from_device({"t": {"max": Interface(where.upload(times), typestr="<M8[us]")}}, schema, device=where)
    assert ss.PruningPredicate("t > TIMESTAMP_NTZ '2020-01-01'", schema).prune(stats).tolist() == [False, True]


def test_a_wall_clock_does_not_bound_an_instant(where):
    schema = pa.schema([("t", pa.timestamp("us", "UTC"))])
    p = ss.PruningPredicate("t > TIMESTAMP '2020-01-01'", schema)
    for zone, kept in ((None, True), ("Asia/Tokyo", False)):
        given = Interface(where.upload(np.array([5])), typestr="<M8[us]", zone=zone)
        assert p.prune(ss.Statistics.from_device({"t": {"max": given}}, schema, device=where)).tolist() == [kept]


def test_frames(where):
    """cuDF's, and record batches of a device, are read by the names that `from_arrow` takes."""
    table = small(70).to_arrow()
    batch = table.combine_chunks().to_batches()[0]
    interfaces = {n: Interface(where.upload(np.asarray(c))) for n, c in zip(table.column_names, batch.columns, strict=True) if n[0] != "s"}
    texts = {n: Refuses(batch.column(n)) for n in ("s.min", "s.max")}
    frames = [Frame({**interfaces, **texts, "path": Refuses(batch.column("s.min"))}), ArrowDevice(batch, where), ArrowDevice(batch.slice(0), where)]
    p = ss.PruningPredicate("x > 1099511627800 AND f < 3e12 AND s > '003' AND x IS NOT NULL", SCHEMA)
    for frame in frames:
        stats = ss.Statistics.from_device(frame, SCHEMA, device=where)
        assert stats.columns == ("x", "f", "s")
        assert p.evaluate(stats, "cupy").tolist() == p.evaluate(small(70)).tolist()
    part = ss.Statistics.from_device(ArrowDevice(batch.slice(5, 40), where), SCHEMA, device=where)
    assert p.evaluate(part, "cupy").tolist() == p.evaluate(small(70)).tolist()[5:45]


def test_statistics_of_a_device_are_whole_statistics(where, tmp_path):
    """Whatever asks for them in host memory finds them there."""
    host = small()
    stats = ss.Statistics.from_device(ArrowDevice(host.to_arrow().combine_chunks().to_batches()[0], where), SCHEMA, device=where)
    assert stats.to_arrow().equals(host.to_arrow())
    assert stats.get("x", "max").equals(host.get("x", "max"))
    p = ss.PruningPredicate("x > 1099511627800 AND f < 3e12", SCHEMA)
    told = [line for line in p.explain(stats).splitlines() if not line.startswith(("device", "backends"))]
    assert told == [line for line in p.explain(host).splitlines() if not line.startswith("backends")]
    stats.save(tmp_path / "x")
    assert p.prune(ss.Statistics.load(tmp_path / "x")).tolist() == p.prune(host).tolist()
    indexed = stats.index(block=20)
    assert indexed.device == where.name
    assert p.prune(indexed, "cupy").tolist() == p.prune(host).tolist()
    assert p.prune(stats.to_device(where), "cupy").tolist() == p.prune(host).tolist()


WRONG = {
    "a matrix": (lambda d: {"x": {"min": d.upload(np.arange(4)).reshape(2, 2)}}, "x.min is an array of shape"),
    "every other value": (lambda d: {"x": {"min": Interface(d.upload(np.arange(4)), strides=(16,))}}, "expected one dimension, and values one after the other"),
    "complex numbers": (lambda d: {"x": {"min": d.upload(np.zeros(2, "c8"))}}, "expected numbers, booleans or datetime64"),
    "lengths": (lambda d: {"x": {"min": d.upload(np.arange(4)), "max": d.upload(np.arange(5))}}, "x.max has 5 values and x.min has 4"),
    "a column": (lambda d: {"y": {"min": d.upload(np.arange(4))}}, "predicate names 'y'"),
    "a statistic": (lambda d: {"x": {"mean": d.upload(np.arange(4))}}, "has a statistic 'mean'"),
    "lists": (lambda d: {"x": {"min": ArrowDevice(pa.array([[1]]), d)}}, "is an Arrow array of type list<"),
    "another device": (lambda d: {"x": {"min": ArrowDevice(pa.array([1]), d, kind=7)}}, "lies on a device of Arrow's type 7"),
    "one array": (lambda d: ArrowDevice(pa.array([1]), d), "expected a record batch"),
    "a frame without names": (lambda d: Frame({"x": d.upload(np.arange(2))}), "expected names such as 'x.min'"),
    "a number": (lambda d: 5, "was given a int; expected a mapping of columns, a cuDF frame"),
}


@pytest.mark.parametrize("make, says", WRONG.values(), ids=WRONG)
def test_what_is_no_statistic_is_told(make, says, where):
    with pytest.raises(ss.SkipstoneError, match=says):
        ss.Statistics.from_device(make(where), SCHEMA, device=where)


def test_a_launch_is_the_same_wherever_its_inputs_lie(where):
    """Planes that are constant, and bounds that are unknown everywhere, cost nothing there either."""
    empty = ss.Statistics.from_device({"x": {"min": Interface(where.upload(np.arange(3)), where.upload(np.zeros(1, np.uint32)))}}, SCHEMA, device=where)
    p = ss.PruningPredicate("x > 5", SCHEMA)
    launch = empty.launch(p.program)
    assert (launch.roots, launch.arrays) == (prepare(p.program, ss.Statistics.from_dict({"x": {"min": [None] * 3}}, SCHEMA)).roots, [])
    resident = Resident(where)
    assert where.download(gpu.verdicts(launch, resident)).tolist() == [1, 1, 1]
    assert descend.FLAT > 0 and resident.nbytes == 0
