"""Projections compared with Iceberg's own cases and with pyiceberg's projections."""

import itertools
import json
import random
import re
from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest

import skipstone as ss
from skipstone.ir import types as ty
from skipstone.ir.node import Node, Op, literal
from skipstone.ir.partitioning.projection import PartitionField, project
from skipstone.ir.partitioning.transforms import TIME, Transform
from skipstone.ir.simplify import FALSE, TRUE, is_in
from skipstone.ir.text import show
from skipstone.ir.types import TEXT, Kind, from_arrow
from tests.support.rows.partitions import ARROW, COMPARISONS, MODES, bind, fields, value, written
from tests.support.rows.residual import outcome, residual
from tests.support.rows.strategies import Field

CASES = json.loads((Path(__file__).parents[1] / "data" / "iceberg_projection.json").read_text())


# Iceberg's own cases.


def spec_of(case):
    return fields(*((f["source"], f["transform"], f["name"]) for f in case["spec"]))


def sql_of(text):
    """Write UUIDs as binary, and Spark's isnan, which is FALSE for NULL, as a comparison."""
    text = re.sub(r"'([0-9a-f]{8}-[0-9a-f-]{27})'", lambda m: f"X'{m[1].replace('-', '')}'", text)
    return re.sub(r"isnan\((\S+)\)", r"(\1 <=> CAST('NaN' AS DOUBLE))", text)


def near(sql, source, transform):
    """Return partition values near those that a text names, as axis values."""
    dtype = from_arrow(ARROW[source])
    if dtype.kind in TEXT and transform.name == "truncate":
        texts = [
            b"".join(c)
            for n in range(transform.width + 1)
            for c in itertools.product((b"a", b"b", b"v"), repeat=n)
        ]
        named = re.findall(r"'([^']*)'", sql)
        named = [bytes.fromhex(v) if dtype == ty.BINARY else v.encode() for v in named]
        return texts + [v[: transform.width] for v in (*named, b"abcdd", b"abcdf", b"abce", b"zz")]
    numbers = [int(v.replace(".", "")) for v in re.findall(r"-?\d+(?:\.\d\d)?", sql)]
    numbers += [
        (date.fromisoformat(v) - date(1970, 1, 1)).days for v in re.findall(r"DATE '([^']*)'", sql)
    ]
    return sorted(
        {n + i for n in numbers for i in (-10, -2, -1, 0, 1, 2, 10)} | set(range(-13, 60))
    )


# Skipstone prunes more here: the day of a date is the value of each of its rows.
TIGHTER = {"prj-0292", "prj-0298", "prj-0308"}


@pytest.mark.parametrize("case", CASES["projection"], ids=lambda c: c["id"])
def test_iceberg_projection(case):
    """The result equals Iceberg's on every partition value that is not NULL.

    NULL partitions are pruned wherever SQL's three-valued logic allows it.
    """
    spec, mode = spec_of(case), case["mode"]
    found = project(bind(sql_of(case["predicate_sql"]), case["schema"]), spec, mode)
    if not spec:
        assert found == (TRUE if mode == "inclusive" else FALSE)
        return
    results = {
        f.name: f.transform.result_type(from_arrow(ARROW[case["schema"][f.source[0]]]))
        for f in spec
    }
    plain = {
        name: pa.int32() if t == ty.DATE else next(a for a in ARROW.values() if from_arrow(a) == t)
        for name, t in results.items()
    }
    expected = ss.PruningPredicate(case["expect_sql"], pa.schema(list(plain.items()))).node
    candidates = [
        near(case["expect_sql"] + case["predicate_sql"], case["schema"][f.source[0]], f.transform)
        for f in spec
    ]
    rows = (
        list(itertools.product(*candidates))
        if len(spec) == 1
        else [[random.Random(i).choice(c) for c in candidates] for i in range(2000)]
    )
    ours = [
        outcome(found, {(f.name,): v for f, v in zip(spec, row, strict=True)}) is True
        for row in rows
    ]
    theirs = [
        outcome(expected, {(f.name,): v for f, v in zip(spec, row, strict=True)}) is True
        for row in rows
    ]
    assert len(rows) > 50
    if case["id"] in TIGHTER:
        assert ours != theirs and all(
            a <= b if mode == "inclusive" else a >= b for a, b in zip(ours, theirs, strict=True)
        )
    else:
        assert ours == theirs, show(found)
    # Only IS NULL is TRUE for a NULL row. Iceberg also keeps it for `<>` and NOT IN.
    nothing = {(f.name,): None for f in spec}
    assert (outcome(found, nothing) is True) == case["predicate_sql"].endswith("IS NULL")


@pytest.mark.parametrize("case", CASES["residual"], ids=lambda c: c["id"])
def test_iceberg_residual(case):
    spec = spec_of(case)
    values = {
        name: v.encode() if isinstance(v, str) else v for name, v in case["partition"].items()
    }
    assert residual(bind(sql_of(case["predicate_sql"]), case["schema"]), spec, values) == bind(
        case["expect_sql"], case["schema"]
    )


# pyiceberg's projections never prune or prove more than ours, apart from its errors.

PEERS = (
    *((pa.int32(), t) for t in ("identity", "truncate[10]", "bucket[4]")),
    *((pa.int64(), t) for t in ("truncate[1000]", "bucket[4]")),
    *((pa.date32(), t) for t in ("identity", "year", "month", "day", "bucket[4]")),
    *((pa.timestamp("us"), t) for t in ("year", "month", "day", "hour", "bucket[4]")),
    *((pa.string(), t) for t in ("identity", "truncate[2]", "bucket[4]")),
    *((pa.binary(), t) for t in ("truncate[2]", "bucket[4]")),
    (pa.decimal128(9, 2), "truncate[50]"),
)


@pytest.mark.parametrize("arrow, text", PEERS, ids=[f"{a}-{t}" for a, t in PEERS])
def test_never_less_than_pyiceberg(arrow, text):
    pytest.importorskip("pyiceberg")
    from pyiceberg import expressions as e
    from pyiceberg.expressions.visitors import (
        expression_evaluator,
        inclusive_projection,
        strict_projection,
    )
    from pyiceberg.partitioning import PartitionField as TheirField
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.transforms import parse_transform
    from pyiceberg.typedef import Record
    from pyiceberg.types import NestedField

    from tests.support.predicates.transforms import iceberg_types, python

    r, dtype, transform = random.Random(text), from_arrow(arrow), Transform.parse(text)
    schema = Schema(NestedField(1, "x", iceberg_types()[dtype]))
    spec = PartitionSpec(TheirField(1, 1000, parse_transform(text), "p"))
    shape = Schema(*spec.partition_type(schema).fields)
    field, forms = (
        Field(("x",), arrow),
        {
            Op.LT: e.LessThan,
            Op.LE: e.LessThanOrEqual,
            Op.GT: e.GreaterThan,
            Op.GE: e.GreaterThanOrEqual,
            Op.EQ: e.EqualTo,
        },
    )
    x = Node(Op.COLUMN, value=("x",), dtype=dtype)
    drawn = [v for v in (value(r, field) for _ in range(400)) if is_common(v, dtype)]
    pairs = [
        (Node(op, (x, literal(v, dtype))), forms[op]("x", python(v, dtype)))
        for op in COMPARISONS
        for v in drawn[:12]
    ]
    pairs += [
        (is_in(x, drawn[i : i + 3]), e.In("x", {python(v, dtype) for v in drawn[i : i + 3]}))
        for i in range(0, 30, 3)
    ]
    pairs += [(Node(Op.IS_NULL, (x,)), e.IsNull("x"))]
    if dtype == ty.STRING:
        pairs += [
            (Node(Op.LIKE, (x, literal(v.encode() + b"%", dtype)), "\\"), e.StartsWith("x", v))
            for v in ("a", "ab", "abc")
        ]
    partitions = list(dict.fromkeys(p for v in drawn for p in written(transform, v, dtype)[:1]))
    counted = 0
    for ours, theirs in [p for a, b in pairs for p in ((a, b), (Node(Op.NOT, (a,)), e.Not(b)))]:
        for mode, build in zip(MODES, (inclusive_projection, strict_projection), strict=True):
            found = project(ours, (PartitionField(("x",), transform, "p"),), mode)
            their = expression_evaluator(shape, build(schema, spec)(theirs), True)
            for p in partitions:
                our_answer, their_answer = (
                    outcome(found, {("p",): p}) is True,
                    their(Record(python(p, transform.result_type(dtype)))),
                )
                if text in TIME and not transform.exact(dtype) and p <= 0:
                    continue  # other writers put rows of the previous period here
                assert (
                    our_answer <= their_answer
                    if mode == "inclusive"
                    else our_answer >= their_answer
                ), (
                    show(ours),
                    p,
                    show(found),
                    mode,
                )
                counted += 1
    assert counted > 400


def is_common(v, dtype):
    """Return True if both implementations hold a value.

    They share the years 1 to 9999, and values whose partition value fits its type.
    """
    days = {Kind.DATE: 1, Kind.TIMESTAMP: 86400 * 10**6}.get(dtype.kind)
    return isinstance(v, bytes) or (
        -700_000 < v // days < 2_900_000 if days else abs(v) < dtype.highest - 2000
    )
