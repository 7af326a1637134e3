"""CUDA kernels in all forms equal the oracle, on a device that checks accesses."""

import numpy as np
import pyarrow as pa
import pytest

import skipstone as ss
from skipstone.ir.node import Node, Op
from skipstone.kernels.gpu import gpu
from skipstone.kernels.gpu.cuda_text import TYPES, WARPS, DeviceShape, source_of, tile
from skipstone.kernels.gpu.resident import Resident
from skipstone.kernels.pack import planes
from skipstone.kernels.pack.planes import word_count
from skipstone.kernels.run.launch import Launch
from skipstone.kernels.run.run import run
from tests.support.cuda.checks import (
    check_comparisons,
    check_sets,
    check_sizes,
    pack,
)
from tests.support.cuda.shapes import (
    FORMS,
    random_predicates,
    same,
)
from tests.support.effort import LONG
from tests.support.statistics.backends import SIZES
from tests.support.statistics.membership import TYPES as KEYED


@pytest.fixture
def device(where):
    """The emulated device that checks every access; and the card, if there is one."""
    return where


@pytest.mark.parametrize("n", SIZES[1:])
def test_sizes(n, device):
    check_sizes(n, device)


# Comparisons of each NumPy type with each literal.


@pytest.mark.parametrize("lane", TYPES)
def test_comparisons(lane, device):
    check_comparisons(lane, device)


@pytest.mark.parametrize("ranges, room", [(40, 512), *[(300, gpu.MAX_ARGUMENT_BYTES)] * LONG])
def test_more_literals_than_arguments_have_room_for(ranges, room, device, monkeypatch):
    """Such literals are put in a table."""
    monkeypatch.setattr(gpu, "MAX_ARGUMENT_BYTES", room)
    x, schema = np.arange(200) * ranges // 2, pa.schema([("x", pa.int64())])
    stats = ss.Statistics.from_dict({"x": {"min": x, "max": x + 3, "null_count": x * 0}}, schema)
    launch = stats.launch(
        ss.PruningPredicate(
            " OR ".join(f"x BETWEEN {k * 13} AND {k * 13 + 1 + k % 4}" for k in range(ranges)),
            schema,
        ).program
    )
    expected, todo = run(launch, "numpy").planes, np.array([1, 3], np.uint32)
    assert not gpu.literals_fit(launch)
    same(gpu.run(launch, Resident(device)), expected)
    same(gpu.run(launch, Resident(device), todo), [p[todo] for p in expected])


def test_more_columns_than_arguments_have_room_for(device):
    tests = [
        Node(Op.LT, (Node(Op.ARRAY, value=(k, "int8")), Node(Op.PARAM, value=(0, "int8"))))
        for k in range(600)
    ]
    launch = Launch(
        9, (pack(Op.AND, *tests),), [np.arange(9, dtype=np.int8) for _ in tests], [], [np.int8(5)]
    )
    with pytest.raises(ss.DeviceError, match="600 arrays of bounds; a kernel takes 4096 bytes"):
        gpu.run(launch, Resident(device))


# IN lists: few runs as literals, many with a directory, keys spread evenly and not.


@pytest.mark.parametrize("name", KEYED)
def test_sets(name, device):
    check_sets(name, device)


# Random predicates over random statistics, sound and hostile.


@pytest.mark.parametrize("part", range(4 if LONG else 1))
def test_random_predicates(part, device):
    random_predicates(f"cuda {part}", 150 if LONG else 40, device)


# Positions beyond 32 bits.

VAST = 2**32 + 77
PLACES = (5, 2**31 - 1, 2**31 + 40, 2**32 - 1, 2**32, VAST - 1)


@pytest.mark.parametrize("form", FORMS)
def test_places_beyond_32_bits(form, device):
    """The bounds of all containers but a few are 0. A stand-in runs only the blocks of these few,
    or chosen words; a card, which then needs 6 GB, runs all of them.
    """
    partly = hasattr(device, "only")
    if not partly and hasattr(device, "memory"):
        pytest.skip("only g++ can run some blocks of a grid alone, and only a card all of them")
    vast = device.memory.vast if partly else device.empty
    x, roots = (
        vast(VAST, "int8"),
        (pack(Op.GT, Node(Op.ARRAY, value=(0, "int8")), Node(Op.PARAM, value=(0, "int8"))),),
    )
    if partly:
        x.bytes[list(PLACES)] = 1
    else:
        x.fill(0)
        x[list(PLACES)] = 1
    shape, words, rows = DeviceShape(roots, form), 2 * word_count(VAST), 2 if form == "many" else 1
    todo = np.unique(np.array(PLACES) // 64).astype(np.uint32)
    which = {
        "all": [],
        "chosen": [device.upload(todo), np.int64(len(todo))],
        "many": [np.int64(rows)],
    }[form]
    literals = [device.upload(np.array([0, 1], np.int8))] if form == "many" else [np.int8(0)]
    out = (
        device.empty(2 * len(todo), "uint32") if form == "chosen" else vast(rows * words, "uint32")
    )
    each = tile(shape) * WARPS
    blocks, function = -(-words // each), device.function(source_of(shape))
    arguments = [np.int64(VAST), *which, out, x, *literals]
    if form == "chosen" or not partly:
        device.start(function, -(-out.shape[0] // rows // each), arguments)
    else:
        for block in {place // 32 // each for place in PLACES}:
            device.only = range(block, block + 1)
            device.start(function, blocks, arguments)
        device.only = None
    found = (out.bytes if partly else device.download(out)).view(np.uint64)
    assert planes.positions(found, todo if form == "chosen" else None).tolist() == list(PLACES)
