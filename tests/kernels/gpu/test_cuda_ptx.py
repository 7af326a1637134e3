"""Test that kernels as PTX equal the oracle, and PTX's interpreter (tests/support/cuda/ptx.py)."""

import math
import re

import numpy as np
import pyarrow as pa
import pytest

import skipstone as ss
from skipstone.kernels.gpu import cuda_text, gpu
from skipstone.kernels.gpu.resident import Resident
from skipstone.kernels.run.run import run
from tests.support.cuda import faults, ptx, ptx_values
from tests.support.cuda.checks import check_comparisons, check_sets, check_sizes
from tests.support.cuda.faults import Faulty, finds, launches
from tests.support.cuda.interpreted import MISSING, Interpreted
from tests.support.cuda.memory import Wrong
from tests.support.cuda.shapes import random_predicates
from tests.support.effort import LONG

needs_nvrtc = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))

# Some cases of tests/kernels/gpu/test_cuda.py; a long run includes all of them there.


@pytest.mark.parametrize("n", [1, 65, 4097])
def test_sizes(n, interpreted):
    check_sizes(n, interpreted)


@pytest.mark.parametrize("lane", ["int8", "uint16", "float32", "float64"])
def test_comparisons(lane, interpreted):
    check_comparisons(lane, interpreted)


def test_sets(interpreted):
    check_sets("float32", interpreted)


def test_random_predicates(interpreted):
    random_predicates("ptx", 12, interpreted)


@needs_nvrtc
@pytest.mark.parametrize("arch", ["sm_80", "sm_100"])
def test_other_architectures(arch):
    """For newer architectures NVRTC uses another compiler, which writes another dialect."""
    random_predicates(f"ptx {arch}", 100 if LONG else 3, Interpreted(arch))


# Denormals.

N = 960_000


@pytest.fixture(scope="module")
def denormals():
    """Return launches over float32 bounds; one bound in a hundred is denormal."""
    r = np.random.default_rng(1)
    low = r.normal(size=N).astype(np.float32)
    tiny = r.random(N) < 0.01
    low[tiny] = (r.integers(-50, 50, N) * 1e-41)[tiny]
    high = np.where(tiny, low + (r.integers(0, 3, N) * 1e-41).astype(np.float32), low + 1).astype(
        np.float32
    )
    schema = pa.schema([("x", pa.float32())])
    none = np.zeros(N, np.int64)
    stats = ss.Statistics.from_dict(
        {"x": {"min": low, "max": high, "null_count": none, "nan_count": none}}, schema
    )
    return [
        stats.launch(ss.PruningPredicate(text, schema)._prune)
        for text in ("x > 0", "x < -1e-41F", "x <> 0")
    ]


def lost(device, launch):
    """Count the containers that are pruned here and kept by NumPy."""
    kept = run(launch, "numpy").planes[0]
    return int(np.bitwise_count(kept & ~gpu.run(launch, Resident(device))[0]).sum())


@needs_nvrtc
def test_denormals_are_kept(denormals, interpreted):
    assert [lost(interpreted, launch) for launch in denormals] == [0, 0, 0]


@needs_nvrtc
def test_flushing_them_would_lose_rows(denormals):
    """CuPy adds `-ftz=true` to all that it compiles itself."""
    flushing = Interpreted(options=("-ftz=true",))
    assert all(lost(flushing, launch) > 1000 for launch in denormals)


# Faults in PTX; those in CUDA text are in tests/support/cuda/faults.py.

# fault, in the PTX, instead, found by.
FAULTS = [
    (
        "< taken for <=",
        r"setp\.lt\.s(16|32) (.*), (%rs?\d+), (%rs?\d+);",
        r"setp.le.s\1 \2, \3, \4;",
        "differs",
    ),
    (
        "<= taken for <",
        r"setp\.le\.s32 (.*), (%r\d+), (%r\d+);",
        r"setp.lt.s32 \1, \2, \3;",
        "differs",
    ),
    (">= taken for >", r"setp\.ge\.(u64|f32)", r"setp.gt.\1", "differs"),
    ("operands swapped", r"(setp\.ge\.s32 .*), (%r\d+), (%r\d+);", r"\1, \3, \2;", "differs"),
    ("unsigned compared as signed", r"setp\.(\w+)\.u64", r"setp.\1.s64", "differs"),
    (
        "signed compared as unsigned",
        r"(setp\.\w+)\.s32 (.*), (%r\d+), (%r\d+);",
        r"\1.u32 \2, \3, \4;",
        "differs",
    ),
    ("signed widened as unsigned", r"cvt\.s32\.s16", "cvt.u32.u16", "differs"),
    ("a narrower load", r"ld\.global\.nc\.u16", "ld.global.nc.u8", "differs"),
    (
        "a wider load",
        r"ld\.global\.nc\.u64 (.*), ",
        r"ld.global.nc.v2.u64 {\1, \1}, ",
        "not aligned to 16 bytes",
    ),
    ("addresses of a wider type", r"(shl\.b64 .*), 1;", r"\1, 2;", "outside of every argument"),
    ("addresses of another type", r"(shl\.b64 .*), 2;", r"\1, 1;", "not aligned to 4 bytes"),
    (
        "a store one word on",
        r"st\.global\.u32 (.*)\]",
        r"st.global.u32 \1+4]",
        "outside of every argument",
    ),
    ("a store twice", r"(st\.global[^;]*;)", r"\1\n\1", "written twice"),
    (
        "what was stored is read",
        r"(st\.global\.u32) (.*), (.*);",
        r"\1 \2, \3;\nld.global.u32 \3, \2;",
        "this launch writes",
    ),
    ("the tail is not masked", r"not\.b32 (%r\d+), %r\d+;", r"mov.b32 \1, -1;", "differs"),
    ("the opposite votes", r"(vote\.sync\.ballot\.b32 %r\d+, )", r"\1!", "differs"),
    (
        "half of the lanes are named",
        r"(vote\.sync\.ballot\.b32 .*, )%r\d+;",
        r"\g<1>65535;",
        "not all lanes are named",
    ),
    (
        "lanes without a container leave",
        r"(setp\.lt\.s32 (%p\d+), %r\d+, 1;)",
        r"\1\n@\2 ret;",
        "a vote that not all lanes",
    ),
    ("choices swapped", r"selp\.b32 (\S+), (%\S+), (%\S+), ", r"selp.b32 \1, \3, \2, ", "differs"),
    (
        "a register that nobody wrote",
        r"mov\.u32 %r\d+, %tid\.x;",
        "",
        "is read and was not written",
    ),
    (
        "a product that is fused",
        r"mul\.rn\.f64 (.*), (%\S+);",
        r"fma.rn.f64 \1, \2, \2;",
        "not known: fma",
    ),
    ("local memory", r"ld\.global\.nc", "ld.local", "not known: ld.local"),
    ("keys are looked up elsewhere", r"0d4000000000000000", "0d40F86A0000000000", "differs"),
    (
        "keys are looked up in other lines",
        r"(shr\.s64 .*), 16;",
        r"\1, 15;",
        "outside of every argument",
    ),
]


@needs_nvrtc
@pytest.mark.parametrize("fault, pattern, instead, expected", FAULTS, ids=[f[0] for f in FAULTS])
def test_a_planted_fault_is_found(fault, pattern, instead, expected):
    planted = []

    def change(text):
        edited, count = re.subn(pattern, instead, re.sub(r"[ \t]+", " ", text))
        planted.append(count)
        return edited

    device, found = Interpreted(change=change), ["nothing"]
    for launch in launches():
        if expected not in found[-1]:
            found.append(finds(device, launch))
    assert any(planted), "PTX has no such place any more"
    assert expected in found[-1], found


@needs_nvrtc
def test_unchanged_text_passes(interpreted):
    assert {finds(interpreted, launch) for launch in launches()} == {"nothing"}


OF_THE_TEXT = faults.FAULTS if LONG else faults.FAULTS[::13]  # every run finds them all with g++


@pytest.mark.parametrize(
    "fault, pattern, instead, expected", OF_THE_TEXT, ids=[f[0] for f in OF_THE_TEXT]
)
def test_a_fault_in_the_text_is_found(fault, pattern, instead, expected, interpreted):
    faulty = Faulty(interpreted, pattern, instead)
    found = {finds(faulty, launch) for launch in launches()}
    # Shifts by 32 and more are undefined only in C++; PTX defines them with the intended value.
    assert found - {"nothing"} or expected.startswith(("undefined", "refuses")), found


# The interpreter's results of single instructions.

NAN, INF, TINY = math.nan, math.inf, 1e-41
#   instruction          operands                      result
MEANINGS = [
    ("add.s64",          (2**63 - 1, 1),               -(2**63)),
    ("sub.u32",          (0, 1),                       2**32 - 1),
    ("mul.wide.u32",     (2**31, 8),                   2**34),
    ("mul.wide.s16",     (-3, 5),                      -15),
    ("mul.lo.s64",       (2**62, 6),                   -(2**63)),
    ("mad.lo.s32",       (3, 5, -7),                   8),
    ("neg.s32",          (5,),                         -5),
    ("not.b32",          (5,),                         2**32 - 6),
    ("not.pred",         (True,),                      False),
    ("xor.pred",         (True, True),                 False),
    ("shl.b32",          (1, 31),                      2**31),
    ("shl.b32",          (1, 32),                      0),
    ("shl.b32",          (1, 2**32 - 1),               0),
    ("shr.u32",          (2**31, 32),                  0),
    ("shr.s32",          (-8, 1),                      -4),
    ("shr.s64",          (-8, 64),                     -1),
    ("bfi.b64",          (0b11, 0b1000, 1, 2),         0b1110),
    ("popc.b64",         (2**63 + 5,),                 3),
    ("min.s64",          (-1, 1),                      -1),
    ("max.f64",          (NAN, 0.0),                   0.0),
    ("selp.b32",         (1, 2, False),                2),
    ("cvt.s16.s8",       (-1,),                        -1),
    ("cvt.u16.u8",       (255,),                       255),
    ("cvt.s64.s32",      (-1,),                        -1),
    ("cvt.u64.u32",      (2**32 - 1,),                 2**32 - 1),
    ("cvt.u32.u64",      (2**32 + 3,),                 3),
    ("cvt.rn.f64.s64",   (2**53 + 1,),                 2.0**53),
    ("cvt.rzi.s64.f64",  (-1.9,),                      -1),
    ("cvt.rzi.s64.f64",  (INF,),                       2**63 - 1),
    ("cvt.rzi.s64.f64",  (-1e300,),                    -(2**63)),
    ("setp.lt.f64",      (NAN, 1.0),                   False),
    ("setp.ltu.f64",     (NAN, 1.0),                   True),
    ("setp.ltu.f64",     (1.0, 1.0),                   False),
    ("setp.geu.f32",     (1.0, NAN),                   True),
    ("setp.ne.f32",      (NAN, NAN),                   False),
    ("setp.neu.f32",     (NAN, NAN),                   True),
    ("setp.eq.f64",      (-0.0, 0.0),                  True),
    ("setp.num.f64",     (NAN, 0.0),                   False),
    ("setp.nan.f64",     (NAN, 0.0),                   True),
    ("setp.lt.s16",      (-1, 1),                      True),
    ("setp.lt.u16",      (2**16 - 1, 1),               False),
    ("setp.ge.and.s32",  (1, 1, False),                False),
    ("setp.gt.f32",      (TINY, 0.0),                  True),
    ("setp.gt.ftz.f32",  (TINY, 0.0),                  False),
    ("setp.lt.ftz.f32",  (-TINY, 0.0),                 False),
    ("add.rn.ftz.f32",   (TINY, TINY),                 0.0),
    ("max.ftz.f32",      (TINY, 0.0),                  0.0),
]  # fmt: skip


@pytest.mark.parametrize("instruction, operands, result", MEANINGS)
def test_instructions(instruction, operands, result):
    types, kind, make = ptx_values.pure(tuple(instruction.split(".")))
    with np.errstate(all="ignore"):
        made = make(
            *(
                np.array([v]).astype(ptx_values.DTYPES[t])
                for v, t in zip(operands, types, strict=True)
            )
        )
    assert made.astype(ptx_values.DTYPES[kind])[0] == result


NOT_KNOWN = (
    *(
        "fma.rn.f32 %f1, %f2, %f3, %f4;",
        "add.approx.f32 %f1, %f2, %f3;",
        "cvt.rni.s64.f64 %rd1, %fd1;",
        "setp.like.s32 %p1, %r1, %r2;",
    ),
    *(
        "bar.sync 0;",
        "call kernel;",
        "vote.sync.any.pred %p1, %p2, -1;",
        "atom.global.add.u32 %r1, [%rd1], 1;",
        "ld.local.u32 %r1, [%rd1];",
        ".shared .b32 x[4];",
    ),
)


@pytest.mark.parametrize("line", NOT_KNOWN)
def test_unknown_instructions_are_refused(line):
    with pytest.raises(Wrong, match="not known"):
        ptx.parse(f".visible .entry kernel(\n)\n{{\n{line}\n}}\n")


# Texts in which lanes diverge and converge again.

PARTING = (
    f"{cuda_text.HEADER}"
    """
extern "C" __global__ void kernel(const i64 n, u32* __restrict__ out, const int* __restrict__ x)
{
    const i64 at = (i64)blockIdx.x * 256 + threadIdx.x;
    if (at >= n) return;
    u32 sum = 0;
    for (int i = x[at]; i > 0; i -= 1 + (i & 1)) {
        if (i % 4 == 3) continue;
        if (i > 90) break;
        sum = sum * 3 + i;
    }
    if (x[at] & 1) { if (at & 1) sum ^= 7; else sum += 5; } else sum = ~sum;
    out[at] = sum;
}
"""
)


def parting(at, x):
    """Compute the result of one lane."""
    total, i = 0, x
    while i > 0:
        if i > 90 and i % 4 != 3:
            break
        if i % 4 != 3:
            total = (total * 3 + i) % 2**32
        i -= 1 + (i & 1)
    return (total ^ 7 if at & 1 else total + 5) % 2**32 if x & 1 else total ^ (2**32 - 1)


def test_lanes_part_and_meet_again(interpreted):
    x = np.random.default_rng(3).integers(-5, 120, 700).astype(np.int32)
    out = interpreted.empty(700, "uint32")
    interpreted.start(interpreted.function(PARTING), 3, [np.int64(700), out, interpreted.upload(x)])
    assert interpreted.download(out).tolist() == [parting(at, int(v)) for at, v in enumerate(x)]


def test_endless_loops_are_found(interpreted, monkeypatch):
    monkeypatch.setattr(ptx, "STEPS", 100)
    endless = interpreted.function(PARTING.replace("i -= 1 + (i & 1)", "i += x[at] - 1"))
    arguments = [
        np.int64(1),
        interpreted.empty(1, "uint32"),
        interpreted.upload(np.ones(1, np.int32)),
    ]
    with pytest.raises(Wrong, match="does not end"):
        interpreted.start(endless, 1, arguments)
