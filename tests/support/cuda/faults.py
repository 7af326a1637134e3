"""Faults to plant in the text of CUDA kernels."""

import functools
import random
import re

import numpy as np
import pyarrow as pa

import skipstone as ss
from tests.support.cuda.memory import Wrong
from tests.support.cuda.shapes import agree

# fault, in the text, instead, found by
FAULTS = [
    ("< taken for <=", r"(x\d) < (p\d)", r"\1 <= \2", "differs"),
    ("<= taken for <", r"(x\d) <= (p\d)", r"\1 < \2", "differs"),
    (">= taken for >", r"(x\d) >= (p\d)", r"\1 > \2", "differs"),
    ("OR taken for AND", r"\) \| \(", ") & (", "differs"),
    ("the other bound", r"\(x3 >", "(x2 >", "differs"),
    ("another literal", r"(x\d) < p1\)", r"\1 < p0)", "differs"),
    ("an integer compared as a float", r"const i64 (x\d)", r"const double \1", "differs"),
    ("a double compared as a float", r"const double (x\d)", r"const float \1", "differs"),
    ("unsigned compared as signed", r"const u64 (x\d)", r"const i64 \1", "refuses"),
    ("signed compared as unsigned", r"const short (x\d)", r"const unsigned short \1", "differs"),
    ("a literal declared narrower", r"const double (p\d)", r"const float \1", "declares"),
    ("the tail is not masked", r" & live;", ";", "differs"),
    ("one container more is live", r"\(1u << left\)", "(2u << left)", "differs"),
    ("one container less is live", r"left > 0 \? \(1u << left\)", "left > 1 ? (1u << (left - 1))",
     "differs"),
    ("a whole word counts as a partial one", r"left >= 32", "left > 32", "undefined: shift"),
    ("a lane keeps its neighbour's word", r"lane == j", "lane == (j ^ 1)", "differs"),
    ("the last word of a tile is lost", r"j < 8;", "j < 7;", "differs"),
    ("a lane's neighbour container", r"<< 5 \| lane", "<< 5 | (lane ^ 1)", "differs"),
    ("words of 16", r"<< 5 \| lane", "<< 4 | lane", "differs"),
    ("the answer goes to the wrong word", r"(o\d)\[k\]", r"\1[k ^ 1]", "differs"),
    ("the answer goes one word too far", r"(o\d)\[k\]", r"\1[k + 1]", "out of bounds: writes 4"),
    ("lanes beyond the tile write", r"lane >= 8 \|\| ", "", "race: writes"),
    ("lanes beyond the words write", r" \|\| k >= words", "", "out of bounds"),
    ("a plane's wrong word", r"(q\d)\[w\]", r"\1[w ^ 1]", "differs"),
    ("a plane's word of the place, not the number", r"(q\d)\[w\]", r"\1[first + lane]", "differs"),
    ("a plane of another column", r"= q4\[", "= q0[", "differs"),
    ("a plane is what this launch writes", r"= q0\[w\]", "= o0[w]", "unset: reads"),
    ("the tail is read", r"in \? (a\d\[i\]) : 0", r"\1", "out of bounds: reads"),
    ("a whole block: one container too many", r"\(i64\)blockIdx.x \+ 1\) \* (\d+) <= n",
     r"(i64)blockIdx.x + 1) * \1 <= n + \1 - 1", "out of bounds: reads"),
    ("one container after the last is read", r"< rest", "<= rest", "out of bounds: reads"),
    ("the neighbour is past the end", r": n - 1;", ": n;", "out of bounds: reads"),
    ("chosen words: past the last", r": words - 1", ": words", "out of bounds: reads 4 bytes"),
    ("chosen words: halves swapped", r"\(k & 1\)", "(~k & 1)", "differs"),
    ("chosen words: all instead", r"const i64 w = \(i64\)todo[^;]*;", "const i64 w = k;",
     "differs"),
    ("many masks: planes of the tile's first word", r"words \? first \+ j : first",
     "words ? first : first", "differs"),
    ("many masks: planes past the last word", r"first \+ j < words \? first \+ j : first",
     "first + j", "out of bounds: reads"),
    ("many masks: the lane of a word votes alone", r"const u32 w0 = (.*);\s+v0 = lane == j \? w0",
     r"v0 = lane == j ? \1", "divergent"),
    ("many masks: every lane takes each word", r"v0 = lane == j \? (.*) : v0;", r"v0 = \1;",
     "differs"),
    ("many: every row at the first's place", r"row \* words \+ w", "w", "race: writes"),
    ("many: rows of the wrong length", r"row \* words \+ w", "row * (words - 2) + w",
     "race: writes"),
    ("many: the literals of the first row", r"\[row \* \d+ \+", "[", "differs"),
    ("many: rows of literals of the wrong length", r"row \* 5", "row * 4", "differs"),
    ("many: one row too many", r"row < rows", "row <= rows", "out of bounds: reads"),
    ("blocks overlap", r"blockIdx.x \* 8", "blockIdx.x * 7", "race: writes"),
    ("blocks leave gaps", r"blockIdx.x \* 8", "blockIdx.x * 9", "nobody wrote"),
    ("a warp leaves before others vote", r"first >= words", "first + lane >= words", "divergent"),
    ("only lanes with a container vote", r"(const u32 t0 = )(vote.*);", r"\1i < n ? \2 : 0;",
     "divergent"),
    ("lanes vote in different places", r"(const u32 t0 = )(vote.*);", r"\1lane & 1 ? \2 : \2;",
     "divergent"),
    ("a vote of some lanes", r"0xffffffffu, answer", "1u, answer", "divergent"),
    ("16 bytes at once", r"in \? (a\d)\[i\] : 0", r"(*(const Two*)(\1 + i)).x",
     "undefined: type_mismatch"),
    ("ends of runs: one too few are below", r"ends\[middle\] < x", "ends[middle] <= x", "differs"),
    ("ends of runs: of the other bound", r"below\(x0", "below(x1", "differs"),
    ("ends of runs: the wrong bucket", r"lines\[line\], ", "lines[line + 16], ", "differs"),
    ("ends of runs: only the first of a bucket", r"stop = lines\[line \+ 16\]",
     "stop = lines[line] + 1", "differs"),
    ("ends of runs: a full bucket's count", r"k \^= k >> 63;", "", "out of bounds: reads"),
    ("ends of runs: places before the first", r"at = at > 0.0 \? at : 0.0;", "",
     "undefined: shift"),
    ("ends of runs: places after the last", r"at = at < frame\[2\][^;]*;", "",
     "out of bounds: reads"),
    ("a run that starts at the upper bound", r"firsts\[k\] <= high", "firsts[k] < high", "differs"),
    ("a run that starts at the lower bound", r"firsts\[k\] <= low", "firsts[k] < low", "differs"),
    ("a run that ends at the upper bound", r"high <= lasts\[k\]", "high < lasts[k]", "differs"),
    ("no run after the last", r"k < runs\(lines, frame\) && ", "", "out of bounds: reads"),
]  # fmt: skip


NARROW = pa.schema([("x", pa.int64()), ("y", pa.int16()), ("z", pa.string())])


WIDE = pa.schema(
    [
        ("x", pa.int64()),
        ("y", pa.int64()),
        ("u", pa.uint64()),
        ("f", pa.float32()),
        ("d", pa.float64()),
    ]
)


BIG = 2**53


SKEWED = [
    *(k * 2**40 for k in range(-300, 300, 3)),
    *range(BIG, BIG + 200, 2),
    2**62,
]  # some buckets are too full


@functools.cache
def launches():
    """Return launches of different kinds.

    One has narrow integers, planes and few runs with few masks; one has many masks; one has wide
    lanes in whole words; two have long IN lists.
    """
    i = np.arange(4103)
    x, y, nulls = i * 37 % 101, (i * 13 % 11 - 5).astype(np.int16), i % 3
    rows = np.where(i % 5, 2, nulls)
    # A container without a value has no bound: a bound would contradict the counts, and make
    # everything unknown.
    some = lambda a, gone: pa.array(a, mask=gone)
    columns = {
        "x": {
            "min": some(x, nulls % 2 == rows),
            # Some hold one value: only these show whether a bound may equal a literal.
            "max": some(x + 7 * (i % 4 > 0), nulls % 2 == rows),
            "null_count": nulls % 2,
        },
        "y": {"min": some(y, rows == 0), "max": some(y + 2 * (i % 3), rows == 0)},
        "z": {"null_count": np.minimum(i % 4 // 2, rows)},
    }
    made = [ss.Statistics.from_dict(columns, NARROW, row_count=rows)] * 2
    i = np.arange(320)
    x = np.choose(
        i % 5, [(i - 150) * 2**40, BIG + i, -(2**50) - i, -(2**62) - i, 2**62 + 2**60 + i]
    )
    bounds = {
        "x": (x, x + i % 3),
        "y": (BIG + i % 5,) * 2,
        "u": (2**63 - 5 + i.astype(np.uint64),) * 2,
        "f": (i / 7,) * 2,
        "d": (1 + i * 1e-12,) * 2,
    }
    for n in (320, 311, 311):
        columns = {
            c: {"min": low[:n], "max": high[:n], "null_count": i[:n] * 0}
            for c, (low, high) in bounds.items()
        }
        made.append(ss.Statistics.from_dict(columns, WIDE))
    narrow = (
        "x >= 40 AND x < 90 AND y IN (-3, 0, 3) AND z IS NOT NULL OR y > 4 AND x IS NOT NULL "
        "OR z IS NULL AND x < 20"
    )
    wide = f"y < {BIG + 1} AND u < {2**63} OR f >= 20 AND d > {1 + 150e-12!r}"
    masks = " OR ".join(f"x BETWEEN {k} AND {k + k % 4} AND z IS NULL" for k in range(0, 100, 9))
    asked = [narrow, masks, wide, ss.col("x").isin(SKEWED), ~ss.col("x").isin(SKEWED)]
    return [
        stats.launch(ss.PruningPredicate(p, stats.schema).program)
        for stats, p in zip(made, asked, strict=True)
    ]


class Faulty:
    """A device that compiles a changed text."""

    def __init__(self, device, pattern, instead):
        self.device, self.pattern, self.instead, self.planted = device, pattern, instead, 0

    def __getattr__(self, name):
        return getattr(self.device, name)

    def function(self, text):
        edited, count = re.subn(self.pattern, self.instead, text)
        self.planted += count
        return self.device.function(
            "struct alignas(16) Two { long long x, y; };\n" * (count > 0) + edited
        )


def finds(device, launch):
    """Return the error that a launch shows."""
    try:
        agree(device, launch, random.Random(1))
    except Wrong as found:
        return str(found)
    except AssertionError:
        return "differs"
    return "nothing"
