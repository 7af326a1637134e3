"""Damaged footers: they never end the process, and never make the loop disagree with pyarrow."""

import contextlib
import decimal
import faulthandler
import os
import pickle
import random
import subprocess
import sys
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skipstone as ss
from skipstone.bindings.tables.parquet import footer as footer_module
from skipstone.bindings.tables.parquet import footer_groups
from skipstone.bindings.tables.parquet.footer import ParsedFooter
from skipstone.bindings.tables.parquet.footer_blocks import FooterBlock
from skipstone.bindings.tables.parquet.footers import Footer
from skipstone.kernels.decode import footer_layout, footer_loops
from tests.support.effort import LONG
from tests.support.tables import footers as hand
from tests.support.tables.footer_readers import compile_loops, content, reader
from tests.support.tables.traps import long

D = decimal.Decimal


@pytest.fixture(scope="module", autouse=True)
def loops():
    compile_loops()


@pytest.mark.parametrize(
    "column, bound",
    [
        (pa.array([1]), b"\1" * 4),
        (pa.array([1]), b""),
        (pa.array([1], pa.int32()), b"\1" * 8),
        (pa.array([True]), b""),
        (pa.array([b"abc"], pa.binary(3)), b"ab"),
        (pa.array([1.0]), b"\0" * 7),
        (pa.array([D("1.5")], pa.decimal128(5, 2)), b"\0"),
    ],
)
def test_bounds_of_another_size_are_unknown(tmp_path, column, bound):
    """Such bounds end the process in pyarrow 26."""
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": column, "y": [1]}), path)
    hand.restate(path, {hand.MIN: bound, hand.MAX: bound})
    with reader("loop"):
        table = ss.scan_parquet(path)
        assert [
            v
            for w in ("x IS NOT NULL", "x IS NULL", "y = 2")
            for v in table.plan(w).verdicts.tolist()
        ] == [1, 1, 0]


LEVELS = (hand.STRUCT, {3: (hand.LIST, (hand.I64, [0, 1, 2, 3]))})
#     column chunk's metadata: field -> value
DAMAGED = {
    "short bound": {
        12: (hand.STRUCT, {hand.MAX: (hand.BINARY, b"\1" * 4), hand.MIN: (hand.BINARY, long(1))})
    },
    "short old bound": {
        12: (hand.STRUCT, {hand.OLD_MAX: (hand.BINARY, b""), hand.OLD_MIN: (hand.BINARY, long(1))})
    },
    "other type": {1: (hand.I32, 1)},
    "no type": {1: (hand.I32, 77)},
    "no encoding": {2: (hand.LIST, (hand.I32, [77, -1]))},
    "levels": {16: LEVELS},
}
COLD = """
import sys, skipstone as ss
table = ss.scan_parquet(sys.argv[1])
found = [table.plan(w).verdicts.tolist() for w in ("x > 5", "y = 2")]
table.save_stats(sys.argv[2])
print(found, table.files == ss.scan_parquet(sys.argv[1]).files)
"""


@pytest.mark.parametrize("summed", [False, True], ids=["files", "_metadata"])
def test_chunks_that_end_the_process_in_pyarrow(tmp_path, summed):
    """Nothing is compiled, so that Python reads the footers, in a process of its own."""
    lake = tmp_path / "lake"
    lake.mkdir()
    for i, change in enumerate(
        [DAMAGED[k] for k in ("short bound", "levels")] if summed else DAMAGED.values()
    ):
        path = lake / f"{i}.parquet"
        collected = []
        pq.write_table(pa.table({"x": [1, 2], "y": [5, 6]}), path, metadata_collector=collected)
        at = path
        if summed:
            collected[0].set_file_path(path.name)
            at = lake / "_metadata"
            collected[0].write_metadata_file(at)
        footer = hand.read_footer(at)
        footer[hand.ROW_GROUPS][1][1][0][hand.COLUMNS][1][1][0][hand.META_DATA][1].update(change)
        hand.write_footer(at, footer)
        if summed:
            assert cold(lake, tmp_path / "stats").endswith("True")
    if not summed:
        assert cold(lake, tmp_path / "stats") == f"[{[1, 1, 1, 1, 0, 1]}, {[0] * 6}] True"


def cold(folder, to):
    done = subprocess.run(
        [sys.executable, "-c", COLD, str(folder), str(to)],
        capture_output=True,
        text=True,
        env={**os.environ, "SKIPSTONE_COMPILE": "0"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def footer(tmp_path_factory):
    path = tmp_path_factory.mktemp("footers") / "a.parquet"
    blooms = {"x": {"ndv": 4}} if "bloom_filter_options" in pq.write_table.__doc__ else None
    table = pa.table(
        {
            "x": [1, 2],
            "s": ["a", None],
            "f": [1.5, 2.5],
            "m": pa.array([D("1.5"), D("2")], pa.decimal128(5, 2)),
            "l": [[1], []],
        }
    )
    pq.write_table(
        table, path, row_group_size=1, **({"bloom_filter_options": blooms} if blooms else {})
    )
    data = path.read_bytes()
    return data[-8 - int.from_bytes(data[-8:-4], "little") : -8]


def outcome(data):
    """Return a footer's content or its error, and whether the loop understood it."""
    try:
        parsed = ParsedFooter(data)
        return content([Footer("a", FooterBlock.of(parsed))]), parsed.layout is not None
    except Exception as e:  # both readers must raise the same error
        return f"{type(e).__name__}: {e}", False


def outcomes(each, name):
    """Return the outcome of each footer by a reader, in child processes; None: the child died."""
    results = []
    while len(results) < len(each):
        read, write = os.pipe()
        if not (child := os.fork()):
            with contextlib.suppress(BaseException), reader(name), os.fdopen(write, "wb") as out:
                faulthandler.disable()
                os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
                for data in each[len(results) :]:
                    out.write(pickle.dumps(outcome(data)))
                    out.flush()
            os._exit(0)
        os.close(write)
        with (
            os.fdopen(read, "rb") as pipe,
            contextlib.suppress(EOFError, pickle.UnpicklingError),
        ):
            while True:
                results.append(pickle.load(pipe))
        if os.waitpid(child, 0)[1]:
            results.append(None)
    return results


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_each_byte_changed_or_cut(footer):
    r, each = random.Random(3), [footer]
    for at in range(0, len(footer), 1 if LONG else 3):
        each += [
            footer[:at] + bytes([byte]) + footer[at + 1 :]
            for byte in {
                footer[at] ^ 1,
                footer[at] ^ 0x10,
                r.randrange(256),
                *(r.randbytes(16) if LONG else ()),
            }
        ]
        each += [footer[:at], footer[:at] + footer[at + 1 :]]
    counted = Counter()
    for data, old, new in zip(each, outcomes(each, "pyarrow"), outcomes(each, "loop"), strict=True):
        assert old is not None, data  # our checks keep pyarrow from ending the process
        known, understood = new or (None, False)
        counted["understood"] += understood
        # pyarrow refuses the footer, or must not read its chunks, and the loop knows more.
        if understood and (isinstance(old[0], str) or (known != old[0] and is_less(old[0], known))):
            counted["more"] += 1
        else:
            counted["less"] += known != old[0]
            assert new is not None
            assert known == old[0] or (understood and is_less(known, old[0])), data
    assert counted["understood"] > len(each) // 8 and counted["less"] < len(each) // 20


def is_less(known, other):
    """Return True if `known` lacks sizes or statistics of chunks and otherwise equals `other`."""
    columns = [path for path in known if isinstance(path, tuple)]
    pairs = [
        (a, b)
        for path in columns
        for (_, own), (_, others) in zip(known[path][0], other[path][0], strict=True)
        for a, b in zip(own, others, strict=True)
    ]
    return (
        all(a in (b, "None") for a, b in pairs)
        and all(a in (b, -1) for a, b in zip(known["nbytes"], other["nbytes"], strict=True))
        and all(known[key] == other[key] for key in known if key not in (*columns, "nbytes"))
    )


def test_the_loop_runs_as_python(footer):
    """It finds the same as the compiled loop, in whole footers and damaged ones."""
    r = random.Random(5)
    for n in range(60):
        data = bytearray(footer)
        for _ in range(n % 4):
            data[r.randrange(len(data))] = r.randrange(256)
        layouts = [
            footer_layout.layout_of(np.frombuffer(bytes(data), np.uint8), walk)
            for walk in (None, footer_loops.read_footers)
        ]
        assert [x is None for x in layouts] in ([True] * 2, [False] * 2)
        assert layouts[0] is None or all(
            np.array_equal(a, b) for a, b in zip(*layouts, strict=True)
        )


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0",
        b"\x19\xfc\xff\xff\xff\xff\x0f",
        b"\x1c" * 5000,
        b"\x16" + b"\xff" * 20,
        b"\x19\xf0" + b"\xff" * 9 + b"\1",
        b"\x49\xfc\x80\x80\x80\x01" * 9,
    ],
)
def test_bombs(data):
    assert footer_layout.layout_of(np.frombuffer(data, np.uint8)) is None


@pytest.mark.parametrize("on_error", ["raise", "keep"])
def test_a_footer_that_only_pyarrow_refuses(tmp_path, monkeypatch, on_error):
    """The loop accepts it. Bounds that only pyarrow can decode are unknown: the file is kept."""
    spans = pa.array([1, 2], pa.duration("ms"))  # a type that only Arrow reads
    for name in ("a", "b"):
        pq.write_table(pa.table({"x": [1, 2], "t": spans}), tmp_path / f"{name}.parquet")
    with reader("loop"):
        table = ss.scan_parquet(tmp_path, on_error=on_error)

        def refuse(footer):
            raise OSError("Couldn't deserialize thrift: don't know what type:\nmore")

        monkeypatch.setattr(footer_module, "parse_footer", refuse)
        monkeypatch.setattr(footer_groups, "encoding_of", lambda *_: None)  # pyarrow must decode
        plan = table.plan("x > 1")
        assert len(plan.files) == 2
        with pytest.raises(ss.SourceError, match=r"a\.parquet: reading row groups") as raised:
            plan.to_arrow()
        assert str(raised.value).isprintable()
