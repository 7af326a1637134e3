"""Saved statistics give the same answers as before; writing is atomic."""

import errno
import io
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
from skipstone.ir.arrow import plain
from skipstone.kernels.run import guard
from tests.support.predicates.predicates import predicate
from tests.support.rows.zonemaps import random_zone_map
from tests.support.statistics.levels import indexes, same
from tests.support.statistics.saved import SCHEMA, TEXTS, back, many


def equal(a, b):
    """Return True if two arrays hold the same values, NaN included."""
    if a is None or b is None:
        return a is b
    a, b = plain(a), plain(b)
    return a.equals(b) or (
        a.type == b.type
        and pa.types.is_floating(a.type)
        and a.view(f"int{a.type.bit_width}").equals(b.view(f"int{a.type.bit_width}"))
    )


@pytest.mark.parametrize("seed", range(12))
def test_loaded_statistics_equal_the_saved_ones(seed, tmp_path, eager, small_blocks):
    r = random.Random(seed)
    containers = r.choice((0, 1, 2, 63, 64, 65, 200, 700))
    z, schema = random_zone_map(r, containers)
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
    opened = layout.open_file(str(tmp_path / "x.stats"))
    name, at, length, _ = opened.footer["sections"][1]
    part = pa.ipc.open_stream(pa.py_buffer(opened.data).slice(at, length)).read_all()
    assert name == "x" and part.column_names == ["x.min", "x.max", "x.null_count"]
    assert (
        ss.Statistics.from_arrow(part, stats.schema).get("x", "max").equals(stats.get("x", "max"))
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
    column = loaded.column(("x",), flat.leaf(("x",)).dtype)
    assert not column.low.flags.owndata and not column.low.flags.writeable
    raw = np.frombuffer(loaded.get("x", "min").buffers()[1], np.int64, 50_000)
    assert np.shares_memory(column.low, raw)  # an array that needed no packing is stored once
    assert os.path.getsize(tmp_path / "x.stats") < 2.2 * (flat.nbytes + 5 * 8 * 50_000)


def test_memory_maps_are_saved_without_a_copy(tmp_path):
    """In a separate process, to measure its memory."""
    import subprocess
    import sys

    n = 4_000_000
    for name in ("low", "high"):
        np.save(tmp_path / f"{name}.npy", np.arange(n) + (2**40 if name == "high" else 0))
    code = f"""
import resource, numpy as np, pyarrow as pa, skipstone as ss
low, high = (np.load(r"{tmp_path}/" + f"{{name}}.npy", mmap_mode="r") for name in ("low", "high"))
schema = pa.schema([("x", pa.int64())])
stats = ss.Statistics.from_dict({{"x": {{"min": low, "max": high}}}}, schema)
import tracemalloc
tracemalloc.start()
before = pa.total_allocated_bytes()
stats.save(r"{tmp_path}/x.stats")
print(tracemalloc.get_traced_memory()[1], pa.total_allocated_bytes() - before)
again = ss.Statistics.load(r"{tmp_path}/x.stats")
assert ss.PruningPredicate("x = 3000000", schema).prune(again).sum() == 3000001
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    traced, arrow = map(int, done.stdout.split())
    assert traced < 8 * n / 2 and arrow < 1 << 20  # saving allocates a mask of the containers
    assert os.path.getsize(tmp_path / "x.stats") < 2.05 * 8 * n


# Atomic writes.


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
    with pytest.raises(OSError, match="No space left") as found:
        many(40_000).save(path)
    monkeypatch.undo()
    assert found.value.filename == str(path) and ".tmp" not in str(found.value)
    assert path.read_bytes() == good and os.listdir(tmp_path) == ["x.stats"]


def test_a_replaced_file_stays_usable_while_open(tmp_path):
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


def test_threads_share_loaded_statistics(tmp_path, small_blocks):
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
def test_a_forked_child_goes_on_reading(tmp_path):
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


def test_checksums_do_not_depend_on_the_sizes_of_writes():
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


def test_a_folder_in_place_of_the_file_is_named(tmp_path):
    schema = pa.schema([("x", pa.int64())])
    stats = ss.Statistics.from_dict({"x": {"min": [1]}}, schema)
    with pytest.raises(OSError, match=f"'{tmp_path}'$"):
        stats.save(tmp_path)
    assert not list(tmp_path.parent.glob("*.tmp"))
