"""Projections and residuals against rows: random ones, all small cells, and the ends of types."""

import itertools
import random

import pyarrow as pa
import pytest
from hypothesis import given

import skipstone as ss
from skipstone.ir import types as ty
from skipstone.ir.evaluation.oracle import column_facts, verdict
from skipstone.ir.lower import lower
from skipstone.ir.merge import merge
from skipstone.ir.node import Node, Op, literal
from skipstone.ir.outcome import Verdict
from skipstone.ir.partitioning.projection import PartitionField, project
from skipstone.ir.partitioning.transforms import TIME, Transform
from skipstone.ir.rows import evaluate_rows
from skipstone.ir.simplify import is_in
from skipstone.ir.text import show
from skipstone.ir.types import Kind, decimal_type
from tests.support.effort import LONG
from tests.support.predicates.predicates import predicate
from tests.support.rows.partitions import (
    COMPARISONS,
    MODES,
    SOURCES,
    TRANSFORMS,
    judge,
    transform_of,
    value,
    written,
)
from tests.support.rows.residual import outcome
from tests.support.rows.strategies import Field, array_of, randoms


@given(randoms)
def test_no_row_is_lost(r):
    judge(r)


@pytest.mark.parametrize("seed", range(4 if LONG else 1))
def test_no_row_is_lost_in_bulk(seed):
    r = random.Random(seed)
    total = {}
    for _ in range(150):
        total = {k: total.get(k, 0) + v for k, v in judge(r).items()}
    assert all(n > 200 for n in total.values()), total


@given(randoms)
def test_partitions_are_rows_too(r):
    """The row evaluator and plain Python agree on a projection over partitions."""
    arrow = r.choice([a for a in SOURCES if not pa.types.is_boolean(a)])
    field = Field(("x",), arrow)
    transform = Transform.parse(
        r.choice(
            [t for t in TRANSFORMS if Transform.parse(t).supports(field.dtype) and t != "void"]
        )
    )
    values = [v for v in (value(r, field) for _ in range(10)) if v == v]
    partitions = [transform_of(transform, v, field.dtype) for v in values] + [None]
    result = transform.result_type(field.dtype)
    if result.kind is Kind.DECIMAL:
        partitions = [p and min(max(p, result.lowest), result.highest) for p in partitions]
    column = {ty.INT32: pa.int32(), ty.DATE: pa.date32()}.get(result, arrow)
    batch = pa.record_batch({"p": array_of(partitions, column)})
    node = ss.PruningPredicate(
        predicate(r, (field,), plain=True).sql, pa.schema([("x", arrow)])
    ).node
    if any(n.op in (Op.UNKNOWN, Op.CALL) for n in node.walk()):
        return
    for mode in MODES:
        found = project(node, (PartitionField(("x",), transform, "p"),), mode)
        says = evaluate_rows(found, batch).to_pylist()
        assert says == [outcome(found, {("p",): v}) for v in partitions]
        assert len(lower(merge(found)).roots) == 2
        if any(n.op is Op.LIKE for n in found.walk()):
            continue  # the oracle has facts of columns only, and merging turns patterns into calls
        facts = [
            {
                ("p",): column_facts(
                    result, low=v, high=v, null_count=int(v is None), row_count=1, nan_count=0
                )
            }
            for v in partitions
        ]
        assert [verdict(found, f) for f in facts] == [
            Verdict.ALWAYS if s else Verdict.NEVER for s in says
        ]


# All small cells: the result is not only sound, but as sharp as a partition value allows.

COLUMN = {
    ty.STRING: Node(Op.COLUMN, value=("x",), dtype=ty.STRING),
    ty.BINARY: Node(Op.COLUMN, value=("x",), dtype=ty.BINARY),
}


def sharp(leaf, rows, transform, dtype, exact):
    """Compare projections of a leaf, and of its negation, with the rows of each cell."""
    spec = (PartitionField(("x",), transform, "p"),)
    cells = {}
    for v in rows:
        cells.setdefault(written(transform, v, dtype)[0], []).append(v)
    for node in (leaf, Node(Op.NOT, (leaf,))):
        inclusive, strict = (project(node, spec, mode) for mode in MODES)
        for p, members in cells.items():
            found = {outcome(node, {("x",): v}) for v in members}
            may, must = (outcome(q, {("p",): p}) is True for q in (inclusive, strict))
            assert may >= (True in found) and must <= (found == {True}), (
                show(node),
                p,
                members[:9],
                show(inclusive),
                show(strict),
            )
            if exact:
                assert (may, must) == (True in found, found == {True}), (
                    show(node),
                    p,
                    members[:9],
                    show(inclusive),
                    show(strict),
                )


@pytest.mark.parametrize("width", [1, 2, 3] if LONG else [2])
@pytest.mark.parametrize(
    "dtype, letters",
    [(ty.STRING, ("a", "é", "\U0010ffff")), (ty.BINARY, (b"\x00", b"a", b"\xff"))],
    ids=["string", "binary"],
)
def test_small_cells_of_text(dtype, letters, width):
    words = [
        "".join(w).encode() if dtype == ty.STRING else b"".join(w)
        for n in range(5)
        for w in itertools.product(letters, repeat=n)
    ]
    short = [w for w in words if len(w.decode() if dtype == ty.STRING else w) < 4]
    x = COLUMN[dtype]
    leaves = [Node(op, (x, literal(v, dtype))) for op in COMPARISONS for v in short]
    leaves += [is_in(x, [v, w]) for v, w in itertools.pairwise(short)]
    for leaf in leaves:
        if leaf.op is not Op.LT or leaf.args[1].value:
            sharp(leaf, words, Transform("truncate", width), dtype, exact=True)


@pytest.mark.parametrize("width", [1, 2, 3] if LONG else [2])
def test_small_cells_of_patterns(width):
    words = ["".join(w).encode() for n in range(6) for w in itertools.product("ab", repeat=n)]
    x = COLUMN[ty.STRING]
    for pattern in ("".join(p) for n in range(1, 5) for p in itertools.product("ab_%", repeat=n)):
        if set(pattern) & set("_%") and not pattern.endswith("%%"):
            leaf = Node(Op.LIKE, (x, literal(pattern.encode(), ty.STRING)), "\\")
            middle = "%" in pattern.rstrip("%")
            # Text after a `%` may lie before or after the cut, and is ignored.
            sharp(leaf, words, Transform("truncate", width), ty.STRING, exact=not middle)


@pytest.mark.parametrize("width", [1, 2, 7, 128, 300])
def test_small_cells_of_numbers(width):
    x = Node(Op.COLUMN, value=("x",), dtype=ty.INT8)
    values = (-128, -127, -126, -8, -7, -1, 0, 1, 6, 7, 125, 126, 127)
    for op, v in itertools.product(COMPARISONS, values):
        sharp(
            Node(op, (x, literal(v, ty.INT8))),
            range(-128, 128),
            Transform("truncate", width),
            ty.INT8,
            exact=op is not Op.EQ or width == 1,
        )
    sharp(
        is_in(x, values), range(-128, 128), Transform("truncate", width), ty.INT8, exact=width == 1
    )


# The ends of types and eras: all combinations of values, literals and writers.

EDGES = [
    (ty.INT32, "truncate[10]"),
    (ty.INT32, "truncate[1073741824]"),
    (ty.INT32, "truncate[1073741825]"),
    (ty.INT32, "truncate[2147483647]"),
    (ty.INT64, "truncate[10]"),
    (ty.INT64, "truncate[2147483647]"),
    (ty.INT32, "truncate[8]"),
    (decimal_type(9, 2), "truncate[10]"),
    (decimal_type(18, 0), "truncate[7]"),
    (decimal_type(38, 38), "truncate[1000]"),
    *((ty.DATE, t) for t in ("year", "month", "day")),
    *((ty.DType(Kind.TIMESTAMP, unit=unit), t) for unit in ("s", "ms", "us", "ns") for t in TIME),
]


@pytest.mark.parametrize("dtype, text", EDGES, ids=[f"{d}{d.unit}-{t}" for d, t in EDGES])
def test_edges(dtype, text):
    transform = Transform.parse(text)
    unit = {Kind.DATE: 365, Kind.TIMESTAMP: 3600 * ty.PER_SECOND.get(dtype.unit, 1)}.get(
        dtype.kind, 10
    )
    result = transform.result_type(dtype)
    ends = (
        [e * unit + i for e in (result.lowest, result.highest) for i in (-1, 0, 1)]
        if text == "hour"
        else []
    )
    values = {
        e + s * k
        for e in (dtype.lowest, dtype.highest, 0, *ends)
        for s in (-1, 1)
        for k in (0, 1, 2, 9, 10, 11, unit, unit + 1, 24 * unit)
    }
    values = sorted(v for v in values if dtype.lowest <= v <= dtype.highest)
    x, spec = Node(Op.COLUMN, value=("x",), dtype=dtype), (PartitionField(("x",), transform, "p"),)
    places = [(v, p) for v in values for p in written(transform, v, dtype)]
    leaves = [Node(op, (x, literal(v, dtype))) for op in COMPARISONS for v in values] + [
        is_in(x, values[i : i + 3]) for i in range(0, len(values), 3)
    ]
    for node in (*leaves, *(Node(Op.NOT, (leaf,)) for leaf in leaves)):
        inclusive, strict = (project(node, spec, mode) for mode in MODES)
        for v, p in places:
            expected = outcome(node, {("x",): v})
            assert expected is not True or outcome(inclusive, {("p",): p}) is True, (
                show(node),
                v,
                p,
                show(inclusive),
            )
            assert expected is True or outcome(strict, {("p",): p}) is not True, (
                show(node),
                v,
                p,
                show(strict),
            )
