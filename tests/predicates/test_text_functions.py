"""Functions of text on whole columns: the same results as text by text."""

import random

import numpy as np
import pyarrow as pa
import pytest

from skipstone.ir import types as ty
from skipstone.ir.function import Call
from skipstone.ir.functions import codes, words
from skipstone.ir.interval import evaluate_points
from skipstone.ir.session import Session

FUNCTIONS = {**words.FUNCTIONS, **codes.FUNCTIONS}
S, I, L = ty.STRING, ty.INT32, ty.INT64
ASCII = ["", "a", "ab", "a-b", "-", "--", "a--b-", "a-b-c-d", "  x ", "aAzZ09~", "b" * 300, "\n"]
OTHERS = ["é", "aé-b", "日本-語", "-\u0301-", "😀-😀"]
#  function, its other arguments
CALLS = [
    *(("repeat", (n,)) for n in (-1, 0, 1, 3, 300)),
    *((pad, (n, by)) for pad in ("lpad", "rpad") for n in (-1, 0, 2, 7) for by in ("x", "xy", "é")),
    *(("lpad", (n,)) for n in (0, 5)),
    *(("split_part", (by, n)) for by in ("-", "--", "b", "é", "") for n in (-3, -1, 1, 2, 4)),
    *(
        ("translate", (old, new))
        for old, new in [("ab", "xy"), ("aa", "xy"), ("ab", "xyz"), ("ab", "x")]
    ),
    ("translate", ("é", "e")),
    ("translate", ("a", "é")),
    ("ascii", ()),
]  # fmt: skip


def data_of(value):
    out = np.empty(1, object if isinstance(value, str) else np.int64)
    out[:] = [value.encode() if isinstance(value, str) else value]
    return out


@pytest.mark.parametrize(("name", "more"), CALLS)
@pytest.mark.parametrize("texts", [ASCII, ASCII + OTHERS, ["", ""]], ids=["ascii", "any", "empty"])
def test_columns_and_single_texts(name, more, texts):
    f = FUNCTIONS[name]
    types = (S, *(S if isinstance(v, str) else I for v in more))
    call = Call(name, types, I if name == "ascii" else S, Session())
    column = pa.array(["cut", *texts], pa.large_string())[1:]
    found = f.column(call, column, *(v.encode() if isinstance(v, str) else v for v in more))
    each = np.empty(len(texts), object)
    each[:] = [text.encode() for text in texts]
    expected, bad, _ = evaluate_points(call, f, [each, *map(data_of, more)])
    if found is None:
        assert texts is not ASCII or bad.any() or (name, more) in REFUSED
        return
    assert not bad.any()
    values = found.to_pylist() if isinstance(found, pa.Array) else found.tolist()
    assert [v.encode() if isinstance(v, str) else v for v in values] == expected.tolist()


# What Arrow cannot do with ASCII texts either.
REFUSED = [
    *((pad, (n, by)) for pad in ("lpad", "rpad") for n in (-1, 0, 2, 7) for by in ("x", "xy", "é")
      if n < 0 or by == "xy"),
    *(("split_part", ("", n)) for n in (-3, -1, 1, 2, 4)),
    ("translate", ("ab", "x")), ("translate", ("é", "e")), ("translate", ("a", "é")),
    ("repeat", (300,)),
]  # fmt: skip


def test_bits_are_counted():
    random_ = random.Random(1)
    values = [0, -1, 1, 2**63 - 1, -(2**63), *(random_.getrandbits(63) for _ in range(200))]
    call = Call("bit_count", (L,), I, Session())
    found, _, _ = evaluate_points(call, FUNCTIONS["bit_count"], [np.array(values, np.int64)])
    assert found.tolist() == [(v & 2**64 - 1).bit_count() for v in values]
