"""Test the kernels that serve any predicate: verdicts, positions, and bounds on the device."""

import random

import numpy as np
import pyarrow as pa
import pytest

from skipstone.ir.types import Kind, from_arrow
from skipstone.kernels.gpu import cuda_tools, gpu
from skipstone.kernels.gpu.device_arrays import external_array_of
from skipstone.kernels.gpu.device_bounds import bounds_on_device
from skipstone.kernels.pack.columns import ColumnStatistics, pack_column
from tests.support.cuda.arrays import FIXED, ArrowDevice, interface
from tests.support.rows.strategies import Field, array_of
from tests.support.rows.zonemaps import hostile


@pytest.mark.parametrize("n", [1, 31, 32, 33, 64, 8192, 8193, 70_000])
@pytest.mark.parametrize("share", [0, 0.01, 0.7, 1])
def test_positions_and_bytes(n, share, where):
    """Planes of any size and density: tiles of 8,192 containers, empty words and full words."""
    r = np.random.default_rng(n)
    # consecutive, or anywhere
    bits = np.sort(r.random(n)) < share if n % 2 else r.random(n) < share
    padded = np.zeros(-(-n // 64) * 64, np.bool_)
    padded[:n] = bits
    words = where.upload(np.packbits(padded, bitorder="little").view(np.uint32))
    counts = gpu.count(where, words)
    # Compared as arrays: if `CI` is set, pytest takes minutes to show how lists of thousands of
    # numbers differ, and faults are planted here.
    assert np.array_equal(
        counts,
        [
            part.sum()
            for part in np.split(
                padded, range(cuda_tools.TILE * 32, len(padded), cuda_tools.TILE * 32)
            )
        ],
    )
    starts, out = np.cumsum(counts) - counts, where.empty(int(counts.sum()), "int64")
    if counts.sum():
        where.start(
            where.function(cuda_tools.positions_text()),
            len(counts),
            [np.int64(len(padded) // 32), out, words, where.upload(starts)],
        )
        assert np.array_equal(where.download(out), np.flatnonzero(bits))
    miss = where.upload(
        np.packbits(~padded ^ (np.arange(len(padded)) % 3 == 0), bitorder="little").view(np.uint32)
    )
    spread = where.empty(len(padded) // 4, "uint32")
    gpu._write_verdicts(where, [words, miss], spread)
    assert np.array_equal(
        where.download(spread.view(np.uint8)),
        np.where(padded, 1 + (padded ^ (np.arange(len(padded)) % 3 == 0)), 0),
    )


def known_bounds(bounds, dtype, end):
    """Return bounds as axis values; None is unknown."""
    return None if bounds is None else [None if v == end else v for v in bounds.tolist()]


@pytest.mark.parametrize("arrow", dict.fromkeys(t for t in FIXED if t != pa.date64()), ids=str)
def test_bounds_are_mended_as_on_the_host(arrow, where):
    """Null, NaN and inverted bounds mean what packing makes of them, in every form."""
    dtype, r = from_arrow(arrow), random.Random(str(arrow))
    stats = hostile(r, (Field(("x",), arrow),), 140).stats
    # This value is NaT in NumPy, which has its own test.
    least = None if dtype.kind is not Kind.TIMESTAMP else dtype.lowest
    low, high = (
        array_of([None if (v := getattr(s[("x",)], side)) == least else v for s in stats], arrow)
        for side in ("low", "high")
    )
    c = pack_column(ColumnStatistics(low, high), dtype, len(stats))
    expected = [
        known_bounds(bounds, dtype, c.end(side))
        for bounds, side in ((c.low, False), (c.high, True))
    ]
    ways = [lambda a: interface(where, a, True), lambda a: interface(where, a, False)]
    ways += (
        []
        if pa.types.is_boolean(arrow)
        else [
            lambda a: ArrowDevice(a, where),
            lambda a: ArrowDevice(pa.concat_arrays([a[:3], a])[3:], where),
        ]
    )
    if dtype.kind is Kind.DATE:
        ways = ways[2:]  # days have 8 bytes in NumPy
    if hasattr(where, "compile"):
        kind = {Kind.BOOL: "bool", Kind.TIMESTAMP: "datetime64"}.get(dtype.kind, dtype.numpy_type)
        checks = {
            cuda_tools.check_text(k, (side, other))
            for k in (kind, dtype.numpy_type)
            for side in ("bits", "bytes")
            for other in (side, None)
        }
        where.compile([*checks, cuda_tools.replace_unknown_text(dtype.numpy_type)])
    for way in ways:
        f = [external_array_of(way(a), "x", where) for a in (low, high)]
        assert all(one.suits(dtype) for one in f)
        there = [
            None if bounds is None else where.download(bounds)
            for bounds in bounds_on_device(where, dtype, *f)
        ]
        assert [
            known_bounds(bounds, dtype, end)
            for bounds, end in zip(there, (dtype.lowest, dtype.highest), strict=True)
        ] == expected
        for one, given in zip(f, (low, high), strict=True):
            back = one.to_arrow(where)
            assert (
                back.type == given.type
                and back.is_valid().to_pylist() == given.is_valid().to_pylist()
            )
        alone, _ = bounds_on_device(where, dtype, f[0], None)
        packed = pack_column(ColumnStatistics(low), dtype, len(stats))
        assert known_bounds(where.download(alone), dtype, dtype.lowest) == known_bounds(
            packed.low, dtype, packed.end(False)
        )


#    fault                                          in the text                         instead
FAULTS = [
    ("a byte takes its neighbour's bit",      "0x00204081u",             "0x00104081u"),
    ("what may miss is sure",                 "may & ~not_all",          "may & not_all"),
    ("the other nibble",                      "(at & 7) << 2",           "(~at & 7) << 2"),
    ("a lane's count is cut",                 "b < 9",                   "b < 8"),
    ("a tile counts the next one's words",    "w < stop; w += 32",       "w < words; w += 32"),
    ("the last word of a tile has no places", "w < stop; ++w",           "w + 1 < stop; ++w"),
    ("a place counts itself",                 "(1u << lane) - 1u",       "(2u << lane) - 1u"),
    ("places of the wrong word",              "w << 5 | lane",           "(w - first) << 5 | lane"),
    ("inverted bounds stand",                 "low[at] > high[at]",      "low[at] < low[at]"),
    ("NaN is a bound",                        "low[at] == low[at]",      "true"),
    ("one side alone is dropped",             "!knows_high || inverted", "!knows_high"),
    ("masks from their first bit",            "(high_first + at) >> 3",  "at >> 3"),
    ("known bounds are mended",               "& 1u ? end",              "& 1u ^ 1u ? end"),
]  # fmt: skip


def tools_agree(device):
    test_positions_and_bytes(20_000, 1, device)
    test_bounds_are_mended_as_on_the_host(pa.float32(), device)


@pytest.mark.parametrize("pattern, instead", [f[1:] for f in FAULTS], ids=[f[0] for f in FAULTS])
def test_a_planted_fault_is_found(pattern, instead, device, monkeypatch):
    whole, planted = cuda_tools._text, []

    def text(*given):
        made = whole(*given)
        planted.append(pattern in made)
        return made.replace(pattern, instead)

    monkeypatch.setattr(cuda_tools, "_text", text)
    for kept in (cuda_tools.verdicts_text, cuda_tools.count_text, cuda_tools.positions_text):
        monkeypatch.setattr(cuda_tools, kept.__name__, kept.__wrapped__)
    with pytest.raises(AssertionError):
        tools_agree(device)
    assert any(planted)
