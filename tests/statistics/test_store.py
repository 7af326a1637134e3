"""Saved statistics: the same answers from a file as before, or an error; never others."""

import base64
import errno
import io
import json
import multiprocessing
import os
import pickle
import random
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pytest
import xxhash

import skipstone as ss
from skipstone.bindings.statistics.coerce_inputs import KEYS
from skipstone.bindings.statistics.store import layout, write
from skipstone.ir.types import plain
from skipstone.kernels.run import guard
from tests.support.levels import indexes, same
from tests.support.predicates import predicate
from tests.support.strategies import fields, schema_of, table
from tests.support.zonemaps import hostile, zone_map


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of 512 bytes, the least there may be, so that small files have many."""
    for module in (guard, layout):
        monkeypatch.setattr(module, "SHIFT", 9)
    for module in (guard, write):
        monkeypatch.setattr(module, "BLOCK", 512)


def back(stats, path):
    stats.save(path)
    return ss.Statistics.load(path)


def equal(a, b):
    """Whether two arrays hold the same, NaN included."""
    if a is None or b is None:
        return a is b
    a, b = plain(a), plain(b)
    return a.equals(b) or (
        a.type == b.type
        and pa.types.is_floating(a.type)
        and a.view(f"int{a.type.bit_width}").equals(b.view(f"int{a.type.bit_width}"))
    )


@pytest.mark.parametrize("seed", range(12))
def test_what_is_loaded_is_what_was_saved(seed, tmp_path, eager, small_blocks):
    r = random.Random(seed)
    containers = r.choice((0, 1, 2, 63, 64, 65, 200, 700))
    if r.random() < 0.6:
        t = table(r, containers=containers, most_rows=3)
        z, schema = zone_map(r, t), t.schema
    else:
        chosen = fields(r)
        z, schema = hostile(r, chosen, containers), schema_of(chosen)
    flat = z.statistics(schema)
    variants = [flat, *(indexes(r, flat) if containers else ())]
    predicates = [ss.PruningPredicate(predicate(r, z.fields).sql, schema) for _ in range(12)]
    for i, stats in enumerate(variants):
        loaded = back(stats, tmp_path / "one.stats")
        assert repr(loaded) == repr(stats) and loaded.schema.equals(schema, check_metadata=True)
        for p in predicates:
            same(p, flat, loaded)
        for f in z.fields:
            assert all(equal(flat.get(f.name, key), loaded.get(f.name, key)) for key in KEYS)
        assert equal(flat.row_count, loaded.row_count)
        again = back(loaded, tmp_path / "two.stats")
        assert i or (tmp_path / "one.stats").read_bytes() == (tmp_path / "two.stats").read_bytes()
        for p in predicates[:4]:
            same(p, flat, again)
            same(p, flat, pickle.loads(pickle.dumps(ss.Statistics.load(tmp_path / "two.stats"))))
            same(p, flat, (again.index(64) if containers else again))


def test_value_lists_blooms_and_names_with_dots(tmp_path):
    schema = pa.schema(
        [
            ("a.b", pa.int64()),
            pa.field("s", pa.struct([("f", pa.string()), ("`q`", pa.int32())])),
            ("d", pa.dictionary(pa.int8(), pa.string())),
        ]
    )
    columns = {
        "`a.b`": {
            "min": [1, 5],
            "max": [4, None],
            "min_exact": [True, None],
            "values": [[1, 4], None],
        },
        "s.f": {
            "min": ["a", "b"],
            "max": ["c", None],
            "null_count": [0, 1],
            "values": [["a", "c"], ["b", "x"]],
        },
        "s.```q```": {"null_count": [0, 0]},
        "d": {"min": pa.array(["u", "v"]).dictionary_encode(), "bloom": [bytes(32), b"\xff" * 32]},
    }
    stats = ss.Statistics.from_dict(columns, schema, row_count=[3, 3])
    loaded = back(stats, tmp_path / "x.stats")
    for name, given in columns.items():
        assert all(equal(stats.get(name, key), loaded.get(name, key)) for key in given)
    for text in (
        "`a.b` = 2",
        "s.f IN ('a', 'c')",
        "s.f NOT IN ('a', 'c')",
        "d = 'u'",
        "s.`f` IS NULL",
        "s IS NULL",
        "s.```q``` IS NULL",
    ):
        for one in (
            loaded,
            pickle.loads(pickle.dumps(loaded)),
            back(loaded.index(2, "s.f"), tmp_path / "y.stats"),
        ):
            same(ss.PruningPredicate(text, schema), stats, one)


def test_arrow_reads_a_section_as_statistics(tmp_path):
    stats = many(1000)
    stats.save(tmp_path / "x.stats")
    found = layout.open_file(str(tmp_path / "x.stats"))
    name, at, length, _ = found.footer["sections"][1]
    part = pa.ipc.open_stream(pa.py_buffer(found.data).slice(at, length)).read_all()
    assert name == "x" and part.column_names == ["x.min", "x.max", "x.null_count"]
    assert (
        ss.Statistics.from_arrow(part, stats.schema).get("x", "max").equals(stats.get("x", "max"))
    )


SCHEMA = pa.schema([("x", pa.int64()), ("y", pa.float64()), ("s", pa.string())])


def many(n, spread=10, contradictions=True):
    """Clustered x and s, random y; nulls here and there, and containers that have bounds and no row."""
    r = np.random.default_rng(7)
    x, y = np.arange(n) * spread + 2**40 * np.arange(n) // max(n, 1), r.random(n)
    columns = {
        "x": {"min": x, "max": x + 3 * spread, "null_count": r.integers(0, 2, n)},
        "y": {"min": y, "max": y + 1e-3},
        "s": {
            "min": pa.array([f"{i // 3:08}" for i in range(n)]),
            "max": pa.array([f"{i // 3 + 1:08}" for i in range(n)]),
        },
    }
    row_count = r.integers(0, 9, n) if contradictions else r.integers(2, 9, n)
    return ss.Statistics.from_dict(columns, SCHEMA, row_count=row_count)


TEXTS = (
    "x = 12345",
    "x < 1000 AND y > 0.5",
    "y BETWEEN 0.2 AND 0.201",
    "s = '00000123'",
    "x IS NULL",
    "s LIKE '0000001%' OR y < 0.01",
    "x % 7 = 3 AND x < 900",
)


@pytest.mark.parametrize("backend", ["numpy", "numba"])
@pytest.mark.parametrize("order_by", [None, "y", ("x", "y")])
def test_many_containers(order_by, backend, tmp_path, eager):
    flat = many(100_003)
    loaded = back(flat.index(order_by=order_by), tmp_path / "x.stats")
    for text in TEXTS:
        same(ss.PruningPredicate(text, SCHEMA), flat, loaded, backend)


def test_nothing_is_copied(tmp_path):
    flat = many(50_000, contradictions=False)
    loaded = back(flat.index(), tmp_path / "x.stats")
    ss.PruningPredicate("x > 5", SCHEMA).prune(loaded)
    lane = loaded.column(("x",), flat.leaf(("x",)).dtype)
    assert not lane.low.flags.owndata and not lane.low.flags.writeable
    raw = np.frombuffer(loaded.get("x", "min").buffers()[1], np.int64, 50_000)
    assert np.shares_memory(lane.low, raw)  # an array that needed no packing has one place
    assert os.path.getsize(tmp_path / "x.stats") < 2.2 * (flat.nbytes + 5 * 8 * 50_000)


def test_memory_maps_are_saved_without_a_copy(tmp_path):
    """In a process of its own, whose peak memory is its own."""
    import subprocess
    import sys

    n = 4_000_000
    for name in ("low", "high"):
        np.save(tmp_path / f"{name}.npy", np.arange(n) + (2**40 if name == "high" else 0))
    code = f"""
import resource, numpy as np, pyarrow as pa, skipstone as ss
low, high = (np.load(r"{tmp_path}/" + f"{{name}}.npy", mmap_mode="r") for name in ("low", "high"))
stats = ss.Statistics.from_dict({{"x": {{"min": low, "max": high}}}}, pa.schema([("x", pa.int64())]))
import tracemalloc
tracemalloc.start()
before = pa.total_allocated_bytes()
stats.save(r"{tmp_path}/x.stats")
print(tracemalloc.get_traced_memory()[1], pa.total_allocated_bytes() - before)
assert ss.PruningPredicate("x = 3000000", stats.schema).prune(ss.Statistics.load(r"{tmp_path}/x.stats")).sum() == 3000001
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    traced, arrow = map(int, done.stdout.split())
    assert traced < 8 * n / 2 and arrow < 1 << 20  # a mask of the containers is made on the way
    assert os.path.getsize(tmp_path / "x.stats") < 2.05 * 8 * n


# Damage.


def answers(stats, predicates):
    return [
        getattr(p, call)(stats, "numpy").tolist()
        for p in predicates
        for call in ("evaluate", "survivors")
    ]


@pytest.mark.parametrize(("order_by", "step"), [(None, 4), ("s", 8)])
def test_no_changed_byte_changes_an_answer(order_by, step, tmp_path, small_blocks, eager):
    schema = pa.schema([("x", pa.int64()), ("s", pa.string())])
    x, letters = np.arange(70) * 2**40, [chr(97 + i % 26) for i in range(70)]
    columns = {
        "x": {"min": x, "max": x + 9, "null_count": [i % 3 for i in range(70)]},
        "s": {"min": letters, "max": letters},
    }
    stats = ss.Statistics.from_dict(columns, schema).index(7, order_by)
    predicates = [
        ss.PruningPredicate("x < 20000000000000 AND s > 'd' OR s = 'b' AND x IS NULL", schema)
    ]
    expected, path = answers(stats, predicates), tmp_path / "x.stats"
    stats.save(path)
    good, r, caught = path.read_bytes(), random.Random(3), 0
    with open(path, "r+b", buffering=0) as f:
        for at in range(0, len(good), step):
            os.pwrite(f.fileno(), bytes([good[at] ^ r.randint(1, 255)]), at)
            try:
                assert answers(ss.Statistics.load(path), predicates) == expected, at
            except ss.StatisticsError:
                caught += 1
            os.pwrite(f.fileno(), good[at : at + 1], at)
    assert caught > len(good) // step // 2
    assert answers(ss.Statistics.load(path), predicates) == expected


def test_every_truncation_is_noticed(tmp_path):
    many(130).index(64).save(tmp_path / "x.stats")
    good, path = (tmp_path / "x.stats").read_bytes(), tmp_path / "y.stats"
    for size in (*range(0, 200), *range(200, len(good), 7), *range(len(good) - 60, len(good))):
        path.write_bytes(good[:size])
        with pytest.raises(
            ss.StatisticsError, match=r"y\.stats: .*(torn or truncated|holds no saved)"
        ):
            ss.Statistics.load(path)
    for extra in (b"x", good):
        path.write_bytes(good + extra)
        with pytest.raises(ss.StatisticsError):
            ss.Statistics.load(path)


def test_damage_is_noticed_where_it_is_read(tmp_path):
    n, path = 1 << 18, tmp_path / "x.stats"
    x = np.arange(n) * 10**6
    schema = pa.schema([("x", pa.int64())])
    ss.Statistics.from_dict({"x": {"min": x, "max": x + 10**6}}, schema).index().save(path)
    at = layout.open_file(str(path)).footer["packed"]["columns"][0]["low"][0]
    with open(path, "r+b") as f:
        f.seek(at + 200_000 * 8)
        f.write(b"\xff")
    loaded = ss.Statistics.load(path)
    near = ss.PruningPredicate("x = 1000000000", schema)
    assert near.survivors(loaded).tolist() == [999, 1000]
    for _ in range(2):
        for text in ("x = 200000000000", "x % 5 = 1 AND x BETWEEN 199990000000 AND 200000000000"):
            with pytest.raises(
                ss.StatisticsError,
                match=r"x\.stats: x\.low is damaged: block \d+, bytes \d+ to \d+.*save the statistics again",
            ):
                ss.PruningPredicate(text, schema).prune(loaded)
    assert near.survivors(loaded).tolist() == [999, 1000]
    for whole in (
        lambda: loaded.column(("x",), loaded.leaf(("x",)).dtype),
        lambda: pickle.dumps(loaded),
        lambda: loaded.save(tmp_path / "y"),
        loaded.index,
    ):
        with pytest.raises(ss.StatisticsError, match="damaged"):
            whole()
    assert not (tmp_path / "y").exists() and os.listdir(tmp_path) == ["x.stats"]


@pytest.mark.parametrize("column", ["s", "y"])
def test_damage_of_what_came_and_of_dictionaries(column, tmp_path, small_blocks):
    path = tmp_path / "x.stats"
    many(300).save(path)
    found = layout.open_file(str(path))
    name = {"s": "s: keys", "y": "y"}[column]
    _, at, length, _ = next(s for s in found.footer["sections"] if s[0] == name)
    with open(path, "r+b") as f:
        f.seek(at + length // 2)
        byte = f.read(1)
        f.seek(at + length // 2)
        f.write(bytes([byte[0] ^ 1]))
    loaded = ss.Statistics.load(path)
    assert ss.PruningPredicate("x > 5", SCHEMA).prune(loaded).any()
    for use in (
        lambda: ss.PruningPredicate("s = 'a'", SCHEMA).prune(loaded),
        lambda: loaded.get("y", "min"),
    ):
        if (column == "s") == ("prune" in use.__code__.co_names):
            with pytest.raises(ss.StatisticsError, match="section"):
                use()
        else:
            use()


def rewritten(path, change):
    """The file with another footer, whose checksums are right."""
    found = layout.open_file(str(path))
    at, count, _ = found.footer["checksums"]
    footer = json.loads(json.dumps(found.footer))
    change(footer)
    start = at + count * 8
    data = found.data[:start]
    path.write_bytes(data + layout.ending(json.dumps(footer).encode(), start))


CHANGES = {
    "n": lambda f: f.update(containers=299),
    "negative": lambda f: f.update(containers=-1),
    "text": lambda f: f.update(containers="300"),
    "overlap": lambda f: f["sections"][1].__setitem__(1, f["sections"][0][1]),
    "outside": lambda f: f["sections"][-1].__setitem__(2, 1 << 40),
    "swapped": lambda f: f["sections"].reverse(),
    "schema": lambda f: f.update(schema=base64.b64encode(b"nothing" * 9).decode()),
    "other schema": lambda f: f.update(
        schema=base64.b64encode(pa.schema([("x", pa.int32())]).serialize().to_pybytes()).decode()
    ),
    "lane": lambda f: f["packed"]["columns"][0].update(lane="float32"),
    "no lane": lambda f: f["packed"]["columns"][0].update(lane="object"),
    "key": lambda f: f["packed"]["columns"][0].pop("nans"),
    "path": lambda f: f["packed"]["columns"][0].update(path=[]),
    "far": lambda f: f["packed"]["columns"][0]["low"].__setitem__(0, 1 << 50),
    "before": lambda f: f["packed"]["columns"][0]["low"].__setitem__(0, -8),
    "odd": lambda f: f["packed"]["columns"][0]["low"].__setitem__(0, 65),
    "short": lambda f: f["packed"]["columns"][0]["low"].__setitem__(2, 299),
    "plane": lambda f: f["packed"]["columns"][0].update(real=None),
    "no codes": lambda f: f["packed"]["columns"][2].update(codes=None),
    "codes": lambda f: f["packed"]["columns"][0].update(codes=["keys", 0]),
    "grid": lambda f: f["index"]["codes"]["columns"][0].update(codes=["grid", "a", 1, 1.0]),
    "shift": lambda f: f["index"]["codes"]["columns"][0].update(codes=["grid", 0, 99, 1.0]),
    "size": lambda f: f["index"]["levels"][0].update(size=1),
    "other size": lambda f: f["index"]["levels"][0].update(size=100),
    "starts": lambda f: f["index"]["levels"][0].update(starts=[64, "int64", 3]),
    "order": lambda f: f["index"]["order"].update(order=None),
    "statistic": lambda f: f["statistics"][0].__setitem__(1, ["mean"]),
    "section": lambda f: f["statistics"][0].__setitem__(2, 99),
    "keys": lambda f: f["packed"]["columns"][2].update(codes=["keys", 99]),
    "parents": lambda f: f.update(counts_parents=1),
    "extras": lambda f: f.update(extras=[[["x"], "min", 0]]),
    "empty": dict.clear,
    "block": lambda f: f.update(block=1 << 20),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_footers_that_cannot_be(change, tmp_path):
    many(300).index(64, "y").save(tmp_path / "x.stats")
    rewritten(tmp_path / "x.stats", lambda footer: None)
    ss.Statistics.load(tmp_path / "x.stats")
    rewritten(tmp_path / "x.stats", change)

    def use():
        loaded = ss.Statistics.load(tmp_path / "x.stats")
        answers(loaded, [ss.PruningPredicate(text, SCHEMA) for text in TEXTS])
        return [loaded.get(c, k) for c in ("x", "y", "s") for k in KEYS]

    with pytest.raises(ss.StatisticsError, match=r"x\.stats: "):
        use()


def test_random_footers(tmp_path):
    """Any value of a footer may be any other: an error of ours, or an answer; nothing else."""
    path, r = tmp_path / "x.stats", random.Random(11)
    many(130).index(64, "y").save(path)
    good = path.read_bytes()
    predicates = [ss.PruningPredicate(text, SCHEMA) for text in TEXTS[:4]]

    def change(node):
        items = (
            list(node.items() if isinstance(node, dict) else enumerate(node))
            if isinstance(node, dict | list)
            else []
        )
        if items:
            key, value = r.choice(items)
            if isinstance(value, dict | list) and value and r.random() < 0.9:
                change(value)
            else:
                node[key] = r.choice(
                    (
                        None,
                        True,
                        0,
                        1,
                        -1,
                        64,
                        2**63,
                        1e300,
                        "",
                        "int32",
                        [],
                        {},
                        ["keys", 0],
                        [64, "uint64", 3],
                    )
                )

    for _ in range(400):
        path.write_bytes(good)
        rewritten(path, change)
        try:
            loaded = ss.Statistics.load(path)
            answers(loaded, predicates)
        except (ss.StatisticsError, IndexError):
            pass


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"x",
        b"PAR1" * 100,
        b"ARROW1\0\0" * 100,
        layout.MAGIC,
        layout.MAGIC * 100,
        os.urandom(5000),
    ],
)
def test_foreign_files(data, tmp_path):
    (tmp_path / "x.stats").write_bytes(data)
    with pytest.raises(ss.StatisticsError, match=r"x\.stats: "):
        ss.Statistics.load(tmp_path / "x.stats")


def test_what_is_no_file(tmp_path):
    for path in (tmp_path, tmp_path / "none"):
        with pytest.raises(ss.StatisticsError, match="cannot be opened"):
            ss.Statistics.load(path)


@pytest.mark.parametrize(
    ("version", "told"),
    [
        (layout.VERSION + 1, "a newer Skipstone wrote it: update"),
        (layout.VERSION - 1, "save the statistics again"),
        (0, "save the statistics again"),
    ],
)
def test_versions(version, told, tmp_path, monkeypatch):
    path = tmp_path / "x.stats"
    monkeypatch.setattr(layout, "VERSION", version)
    many(10).save(path)
    monkeypatch.undo()
    reads = f"this Skipstone reads version {layout.VERSION}"
    with pytest.raises(
        ss.StatisticsError,
        match=f"has format version {version}, and {reads}; {told}",
    ):
        ss.Statistics.load(path)


# Writing.


@pytest.mark.parametrize("fails", ["write", "fsync", "replace"])
def test_a_write_that_fails_leaves_the_old_file(fails, tmp_path, monkeypatch):
    path = tmp_path / "x.stats"
    many(10).save(path)
    good = path.read_bytes()

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    if fails == "write":
        monkeypatch.setattr(write._Sink, "end_block", full)
    else:
        monkeypatch.setattr(os, fails, full)
    with pytest.raises(OSError, match="No space left"):
        many(40_000).save(path)
    monkeypatch.undo()
    assert path.read_bytes() == good and os.listdir(tmp_path) == ["x.stats"]


def test_who_has_the_old_file_open_keeps_it(tmp_path):
    path = tmp_path / "x.stats"
    old, p = back(many(5000).index(), path), ss.PruningPredicate("x < 20000", SCHEMA)
    fresh = many(5000)
    many(70, spread=5).save(path)
    old.save(tmp_path / "copy.stats")
    same(p, fresh, old)
    same(p, fresh, ss.Statistics.load(tmp_path / "copy.stats"))
    assert len(ss.Statistics.load(path)) == 70
    mode = os.stat(path).st_mode & 0o777
    os.umask(mask := os.umask(0))
    assert mode == 0o666 & ~mask


def test_threads_share_what_is_loaded(tmp_path, small_blocks):
    flat = many(20_000)
    predicates = [
        ss.PruningPredicate(f"x BETWEEN {i * 1000} AND {i * 1000 + 500} OR y < {i / 1000}", SCHEMA)
        for i in range(40)
    ]
    expected = [p.evaluate(flat, "numpy").tolist() for p in predicates]
    loaded = back(flat.index(64, "y"), tmp_path / "x.stats")
    with ThreadPoolExecutor(8) as threads:
        assert (
            list(threads.map(lambda p: p.evaluate(loaded, "numpy").tolist(), predicates))
            == expected
        )


def in_child(loaded, text, queue):
    queue.put(int(ss.PruningPredicate(text, SCHEMA).prune(loaded, "numpy").sum()))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_child_reads_on(tmp_path):
    loaded = back(many(300_000).index(), tmp_path / "x.stats")
    expected = int(ss.PruningPredicate(TEXTS[1], SCHEMA).prune(loaded, "numpy").sum())
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(
        target=in_child, args=(ss.Statistics.load(tmp_path / "x.stats"), TEXTS[1], queue)
    )
    child.start()
    try:
        assert queue.get(timeout=60) == expected
    finally:
        child.join(10)
        assert not child.is_alive()


def test_the_sink_sums_blocks_however_they_come():
    r, data = random.Random(1), os.urandom(3 * guard.BLOCK + 77)
    sink, at = write._Sink(io.BytesIO()), 0
    while at < len(data):
        size = r.choice((1, 100, guard.BLOCK, 2 * guard.BLOCK))
        sink.write(data[at : at + size])
        at += size
    sink.end_block()
    assert sink.sums == [
        xxhash.xxh3_64_intdigest(data[i : i + guard.BLOCK])
        for i in range(0, len(data), guard.BLOCK)
    ]
