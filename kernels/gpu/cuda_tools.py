"""Write the CUDA kernels that serve any predicate.

They convert packed results, and check bounds that are on a device.

Each is one `extern "C"` function named `kernel` and is started with blocks of THREADS. As in
cuda_text.py, warps share nothing, and every value is written once.
"""

from __future__ import annotations

import functools
from typing import Final

from skipstone.kernels.gpu.cuda_header import HEADER
from skipstone.kernels.gpu.cuda_text import THREADS, TYPES

# Words of 32 in which a warp counts bits, and then finds them: 8,192 containers.
TILE: Final = 256
WARPS: Final = THREADS // 32
# Bits of a lane's count, which is at most TILE, if all of its words are full.
COUNT_BITS: Final = TILE.bit_length()


def _text(arguments: list[str], lines: list[str], above: str = "") -> str:
    head = (
        f'extern "C" __global__ void __launch_bounds__({THREADS})\nkernel({", ".join(arguments)})'
    )
    return "\n".join([f"{HEADER}{above}", head, "{", *(f"    {line}" for line in lines), "}", ""])


_NIBBLE: Final = """
// Four bits as four bytes of 0 or 1: copies 7 bits apart do not meet.
__device__ __forceinline__ u32 bytes(u32 four) { return four * 0x00204081u & 0x01010101u; }
"""


@functools.cache
def verdicts_text(match: bool | None, miss: bool | None) -> str:
    """Return `kernel(n, out, match, miss)`, which writes 0, 1 or 2 for each of n containers.

    Four verdicts share a word of `out`, and each thread writes one word. n is a multiple of 64.

    Args:
        match: The constant answer of "can match", in which case the kernel lacks this argument;
            None: the answer differs between containers.
        miss: The same for "can miss".
    """
    planes = [name for name, answer in (("match", match), ("miss", miss)) if answer is None]
    can_match, can_miss = (
        f"{name}[at >> 3] >> shift & 15u" if answer is None else f"{15 if answer else 0}u"
        for name, answer in (("match", match), ("miss", miss))
    )
    return _text(
        [
            "const i64 n",
            "u32* __restrict__ out",
            *(f"const u32* __restrict__ {name}" for name in planes),
        ],
        [
            f"const i64 at = (i64)blockIdx.x * {THREADS} + threadIdx.x;",
            "if (at << 2 >= n) return;",
            "const u32 shift = (at & 7) << 2;",
            f"const u32 may = {can_match}, not_all = {can_miss};",
            "out[at] = bytes(may) + bytes(may & ~not_all);",
        ],
        _NIBBLE,
    )


_TILE: Final = [
    "const u32 lane = threadIdx.x & 31;",
    f"const i64 tile = (i64)blockIdx.x * {WARPS} + (threadIdx.x >> 5), first = tile * {TILE};",
    "if (first >= words) return;",  # the whole warp
    f"const i64 stop = words - first < {TILE} ? words : first + {TILE};",
]


@functools.cache
def count_text() -> str:
    """Return `kernel(words, counts, bits)`, which counts the set bits in each TILE of words of 32.

    A warp counts one TILE.
    """
    return _text(
        ["const i64 words", "u32* __restrict__ counts", "const u32* __restrict__ bits"],
        [
            *_TILE,
            "u32 own = 0, all = 0;",
            "for (i64 w = first + lane; w < stop; w += 32) own += (u32)__popc(bits[w]);",
            # Adds the lanes' counts bit by bit.
            f"for (u32 b = 0; b < {COUNT_BITS}; ++b) all += (u32)__popc(vote(own >> b & 1u)) << b;",
            "if (lane == 0) counts[tile] = all;",
        ],
    )


@functools.cache
def positions_text() -> str:
    """Return `kernel(words, out, bits, starts)`, which writes positions of set bits, ascending.

    The positions of a TILE are written from its start on.
    """
    return _text(
        [
            "const i64 words",
            "i64* __restrict__ out",
            "const u32* __restrict__ bits",
            "const i64* __restrict__ starts",
        ],
        [
            *_TILE,
            "i64 to = starts[tile];",
            "for (i64 w = first; w < stop; ++w) {",
            "    const u32 word = bits[w];",
            "    if (word >> lane & 1u)"
            " out[to + __popc(word & ((1u << lane) - 1u))] = w << 5 | lane;",
            "    to += __popc(word);",
            "}",
        ],
    )


def check_text(numpy_type: str, sides: tuple[str | None, str | None]) -> str:
    """Return the kernel that finds unknown bounds.

    `kernel(n, low_lost, high_lost, low, high, low_mask, low_first, high_mask, high_first)` sets a
    bit where a bound is null or NaN, and both bits where the bounds are inverted, by the rules of
    kernels/pack/columns.py. A warp writes one word of each result.


    Args:
        numpy_type: The type of the bounds. "bool": bytes, unknown unless 0 or 1. "datetime64":
            NumPy's, where NaT is unknown.
        sides: One for the lower and one for the upper bound. "all": there is no mask. "bits" or
            "bytes": there is a mask, in which the first bound has number `first`. None: there is no
            such bound, and the kernel lacks its arguments.
    """
    kind = TYPES[{"bool": "uint8", "datetime64": "int64"}.get(numpy_type, numpy_type)]
    names = [
        (name, side) for name, side in zip(("low", "high"), sides, strict=True) if side is not None
    ]
    masks = [(name, side) for name, side in names if side != "all"]
    known = {
        "bits": "({0}_mask[({0}_first + at) >> 3] >> (({0}_first + at) & 7) & 1) != 0",
        "bytes": "{0}_mask[{0}_first + at] != 0",
        "all": "true",
    }
    nan = " && {0}[at] == {0}[at]"  # NaN differs from itself
    nat = " && {0}[at] > -9223372036854775807ll - 1"
    proper = {"bool": " && {0}[at] <= 1", "datetime64": nat, "float32": nan, "float64": nan}.get(
        numpy_type, ""
    )
    inverted = (
        "here && knows_low && knows_high && low[at] > high[at]" if len(names) == 2 else "false"
    )
    return _text(
        [
            "const i64 n",
            *(f"u32* __restrict__ {name}_lost" for name, _ in names),
            *(f"const {kind}* __restrict__ {name}" for name, _ in names),
            *(
                part
                for name, _ in masks
                for part in (
                    f"const {TYPES['uint8']}* __restrict__ {name}_mask",
                    f"const i64 {name}_first",
                )
            ),
        ],
        [
            f"const i64 at = (i64)blockIdx.x * {THREADS} + threadIdx.x;",
            "const bool here = at < n;",
            *(
                f"const bool knows_{name} = here && {(known[side] + proper).format(name)};"
                for name, side in names
            ),
            f"const bool inverted = {inverted};",
            *(
                f"const u32 {name}_word = vote(here && (!knows_{name} || inverted));"
                for name, _ in names
            ),
            "if ((threadIdx.x & 31) != 0 || !here) return;",
            *(f"{name}_lost[at >> 5] = {name}_word;" for name, _ in names),
        ],
    )


def replace_unknown_text(numpy_type: str) -> str:
    """Return `kernel(n, out, values, unknown_bits, end)`, which replaces unknown bounds.

    They become the end of their type.

    A bound is unknown where its bit in `unknown_bits` is set. A thread writes one value.
    """
    kind = TYPES[numpy_type]
    return _text(
        [
            "const i64 n",
            f"{kind}* __restrict__ out",
            f"const {kind}* __restrict__ values",
            "const u32* __restrict__ unknown_bits",
            f"const {kind} end",
        ],
        [
            f"const i64 at = (i64)blockIdx.x * {THREADS} + threadIdx.x;",
            "if (at < n) out[at] = unknown_bits[at >> 5] >> (at & 31) & 1u ? end : values[at];",
        ],
    )
