"""Test JSON texts as columns: accepted texts equal a parser's result; others are rejected."""

import decimal
import json

import numpy as np
import pyarrow as pa
import pytest

from skipstone.bindings.tables.delta import decode
from skipstone.bindings.tables.delta.fields import LeafField
from skipstone.kernels.decode.json_texts import read_texts, template_of

KIND = pa.struct(
    [
        ("n", pa.int64()),
        ("tight", pa.bool_()),
        (
            "low",
            pa.struct(
                [
                    ("i", pa.int64()),
                    ("f", pa.float64()),
                    ("d", pa.decimal128(38, 6)),
                    ("s", pa.string()),
                    ("in", pa.struct([("i", pa.int64())])),
                ]
            ),
        ),
        ("nulls", pa.struct([("i", pa.int64()), ("a,b", pa.int64())])),
    ]
)


def expected(text):
    """Return a text's struct as Python's parser reads it; None: left to another parser."""
    try:
        found = json.loads(text, parse_float=decimal.Decimal, parse_constant=lambda _: 1 / 0)
    except (ValueError, ZeroDivisionError):
        return None
    return decode._convert(found, KIND) if isinstance(found, dict) else None


def value(r, kind):
    pick = r.integers(0, 12)
    if pick == 0:
        return None
    match kind:
        case "i":
            return int(r.integers(-(10 ** r.integers(1, 19)), 10 ** r.integers(1, 19)))
        case "f":
            return (
                ["NaN", "Infinity", "-Infinity"][pick - 1]
                if pick < 4
                else [0.0, -1.5, 1e300, 2.5e-7, float(r.normal())][r.integers(0, 5)]
            )
        case "d":
            return [0, 12, -3.25, 1e5, 7.5e-2][r.integers(0, 5)]
        case "s":
            return (
                ["", "a", "héé", 'q"x', "tab\t", "zo\u2028"][r.integers(0, 6)]
                if pick < 5
                else "plain" * int(r.integers(0, 4))
            )
    return bool(pick % 2)


def row(r):
    low = {k: value(r, k) for k in ("i", "f", "d", "s") if r.random() < 0.97}
    out = {"n": abs(value(r, "i") or 0), "low": low, "nulls": {"i": value(r, "i"), "a,b": 3}}
    if r.random() < 0.1:
        out["more"] = "x"
    if r.random() < 0.2:
        out["tight"] = value(r, "t")
    if r.random() < 0.05:
        out["low"]["in"] = {"i": 3}
    return out


def mutated(text, r):
    data = bytearray(text.encode())
    for _ in range(r.integers(1, 3)):
        at = int(r.integers(0, len(data)))
        match r.integers(0, 4):
            case 0:
                data[at] = int(r.choice(list(b'0123456789"{}[]:,.eE+-ntf\\ ')))
            case 1:
                del data[at]
            case 2:
                data.insert(at, int(r.choice(list(b'0"{},: \n'))))
            case _:
                del data[at:]
        if not data:
            break
    return data.decode(errors="replace")


@pytest.mark.parametrize("seed", range(15))
def test_accepted_texts_equal_a_parser(seed):
    r = np.random.default_rng(seed)
    spaces = {"separators": (",", ":")} if seed % 2 else {}
    texts = [json.dumps(row(r), ensure_ascii=bool(seed % 3), **spaces) for _ in range(400)]
    texts = [mutated(t, r) if r.random() < 0.3 else t for t in texts]
    whole = pa.array(["", *texts, "{}", "null", "[1]"])
    try:
        found, left = read_texts(whole.slice(1), KIND)
    except pa.ArrowInvalid:  # a decimal that does not fit: all texts are left to another parser
        return
    assert len(found) == len(texts) + 3
    for text, struct, other in zip(
        [*texts, "{}", "null", "[1]"], found.to_pylist(), left, strict=True
    ):
        if other:
            assert struct is None
        else:
            assert struct == expected(text), text
    assert int(left.sum()) < len(left)


def test_forms_share_a_part(monkeypatch):
    """Together with the texts that the loop leaves, the result equals the general parser's."""
    monkeypatch.setattr(decode, "MIN_COMPILED", 1)
    r = np.random.default_rng(5)
    texts = pa.array([None if r.random() < 0.02 else json.dumps(row(r)) for _ in range(3000)])
    assert pa.chunked_array(list(decode._parse_compiled(texts, KIND, True))).equals(
        pa.chunked_array(list(decode._parse_with_arrow(texts, KIND, True)))
    )


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ('{"n":1,"low":{"i":2,"in":{"i":3}}}', [("n",), ("low", "i"), ("low", "in", "i")]),
        (' { "n" : 1 } ', [("n",)]),
        ('{"n":1,"other":"x"}', [("n",), None]),
        ('{"nulls":{"a,b":4}}', [("nulls", "a,b")]),
        ("{}", []),
        ('{"low":{}}', []),
        ('{"n":1,"n":2}', None),
        ('{"n":[1]}', None),
        ('{"low":3}', None),
        ('{"n":{"x":1}}', None),
        ('{"n":1}}', None),
        ('{"n":1', None),
        ('{"n" 1}', None),
        ('{"n":\x0b1}', None),
        ('{"n":1}\x0c', None),
        ('{"n":1,}', None),
        ("{,}", None),
        ("", None),
        ("3", None),
        ('"n"', None),
        ('{"a\\u0062":1}', None),
    ],
)
def test_forms(text, paths):
    form = template_of(text.encode(), KIND)
    assert paths is None if form is None else list(form.paths) == paths


@pytest.mark.parametrize("number", ["3.5E38", "9" * 39, "1" + "0" * 128, "1e2", "0." + "0" * 40])
def test_decimals_that_arrow_wraps_are_left(number):
    found, left = read_texts(pa.array([f'{{"low":{{"d":{number}}}}}', '{"low":{"d":1}}']), KIND)
    assert (left.tolist(), found.to_pylist()[0]) == ([True, False], None)


@pytest.mark.parametrize("kind", [pa.int64(), pa.float64(), pa.decimal128(38, 6), pa.float32()])
@pytest.mark.parametrize("number", ["1E1000000000", "-1E300000", "1E-1000000000", "1e400"])
def test_numbers_that_no_type_holds_cost_no_time(number, kind):
    leaf = LeafField(("x",), ("x",), kind)
    (found,) = decode.parse_statistics(
        pa.array([f'{{"numRecords":2,"minValues":{{"x":{number}}}}}']), [leaf]
    ).to_pylist()
    assert (found["numRecords"], found["minValues"]["x"] in (None, 0)) == (2, True)


def test_a_float_that_is_too_large_is_unknown():
    found, _ = read_texts(pa.array(['{"f":1e39}']), pa.struct([("f", pa.float32())]))
    assert found.to_pylist() == [{"f": None}]


def test_rare_texts_do_not_look_for_forms():
    texts = [json.dumps({"n": 1})] * 5000 + [json.dumps({f"k{i}": 1}) for i in range(50)]
    found, left = read_texts(pa.array(texts), KIND)
    assert (left[:5000].any(), left[5000:].all()) == (False, True)
    assert found[0].as_py()["n"] == 1
