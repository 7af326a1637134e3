"""Test that the emulated device accepts what a card accepts, and nothing else."""

import contextlib
import re

import numpy as np
import pytest

import skipstone as ss
from skipstone.ir.node import Node, Op
from skipstone.kernels.gpu.cuda_text import DeviceShape, source_of
from skipstone.kernels.pack import planes
from tests.support.cuda.emulated import MISSING, Emulated
from tests.support.cuda.memory import Wrong

SHAPE = DeviceShape(
    (
        Node(
            Op.PACK,
            (
                Node(
                    Op.LT, (Node(Op.ARRAY, value=(0, "int16")), Node(Op.PARAM, value=(0, "int16")))
                ),
            ),
        ),
    )
)
GIVEN = {
    "n": np.int64(4096),
    "o0": ("empty", 128, "uint32"),
    "a0": ("put", np.arange(4096, dtype=np.int16)),
    "p0": np.int16(7),
    "blocks": 2,
}

# fault, instead, found by.
LAUNCHES = [
    ("nothing", {}, None),
    (
        "a host array",
        {"a0": np.arange(4096, dtype=np.int16)},
        "a0 is ndarray; expected memory of the device",
    ),
    (
        "an array of another type",
        {"a0": ("put", np.arange(4096, dtype=np.int32))},
        "a0 is of int32; the kernel declares int16",
    ),
    ("a number of Python", {"p0": 7}, "p0 is int; expected a NumPy scalar"),
    ("a number of another type", {"p0": np.int64(7)}, "p0 is of int64; the kernel declares int16"),
    ("an argument too many", {"q0": np.int64(7)}, "5 arguments; the kernel takes 4"),
    ("no blocks", {"blocks": 0}, "a grid of 0 blocks"),
    ("a block too few", {"blocks": 1}, "256, from byte 256 on, nobody wrote"),
    (
        "more containers than bounds",
        {"n": np.int64(4097), "o0": ("empty", 130, "uint32"), "blocks": 3},
        "reads 2 bytes at 8192 of 'a0'",
    ),
    (
        "too little room for answers",
        {"o0": ("empty", 127, "uint32")},
        "writes 4 bytes at 508 of 'o0', which has 508",
    ),
    (
        "bounds that nobody put there",
        {"a0": ("empty", 4096, "int16")},
        "reads byte 0 of 'a0', which nobody wrote",
    ),
    (
        "answers in the place of bounds",
        {"a0": ("again", "o0", "int16"), "o0": ("empty", 2048, "uint32")},
        "o0 and a0 overlap",
    ),
]


@pytest.mark.parametrize("fault, instead, expected", LAUNCHES, ids=[f[0] for f in LAUNCHES])
def test_a_wrong_launch_is_found(fault, instead, expected, device):
    made, given = {}, GIVEN | instead
    blocks = given.pop("blocks")
    for name, one in given.items():
        match one:
            case ("empty", count, lane):
                made[name] = device.empty(count, lane)
            case ("put", values):
                made[name] = device.upload(values)
            case ("again", other, lane):
                made[name] = made[other].view(lane)
            case _:
                made[name] = one
    with (
        contextlib.nullcontext()
        if expected is None
        else pytest.raises(Wrong, match=re.escape(expected))
    ):
        device.start(device.function(source_of(SHAPE)), blocks, list(made.values()))
        found = device.download(made["o0"]).view(np.uint64)
        assert planes.unpack(found, 4096).tolist() == (np.arange(4096) < 7).tolist()


@pytest.mark.skipif(MISSING is not None, reason=str(MISSING))
def test_memory_of_the_device_is_its_own(tmp_path):
    device = Emulated(tmp_path, size=100)
    there = device.upload(np.arange(10))
    with pytest.raises(Wrong, match="not for NumPy"):
        np.asarray(there)
    with pytest.raises(Wrong, match=r"80 bytes at 0x.* are not of the device"):
        device.adopt(np.arange(10).ctypes.data, 10, "int64", None)
    assert device.download(device.adopt(there.at + 8, 3, "int64", there)).tolist() == [1, 2, 3]
    assert device.download(device.adopt(there.at + 1, 1, "int64", there)).tolist() == [
        1 << 56
    ]  # not aligned, so it is copied
    with pytest.raises(ss.DeviceError, match="out of memory: 40 bytes are asked for, 20 are left"):
        device.empty(10, "float32")
    device.memory.lose()
    with pytest.raises(ss.DeviceError, match="lost"):
        device.download(there)
