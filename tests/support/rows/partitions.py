"""Partitions of random rows: specs, written values, and checks of projections."""

import numpy as np
import pyarrow as pa

import skipstone as ss
from skipstone.ir import types as ty
from skipstone.ir.node import Op
from skipstone.ir.partitioning.projection import PartitionField, project
from skipstone.ir.partitioning.transforms import TIME, Transform
from skipstone.ir.rows import evaluate_rows
from skipstone.ir.text import show
from skipstone.ir.types import TEXT, Kind
from tests.support.predicates.predicates import predicate
from tests.support.rows.residual import outcome, residual
from tests.support.rows.strategies import Field, array_of, point

ARROW = {
    **{
        "int": pa.int32(),
        "bigint": pa.int64(),
        "string": pa.string(),
        "binary": pa.binary(),
        "date": pa.date32(),
        "uuid": pa.binary(16),
    },
    **{
        "timestamp_ntz": pa.timestamp("us"),
        "decimal(9,2)": pa.decimal128(9, 2),
        "double": pa.float64(),
        "float": pa.float32(),
    },
}
MODES = ("inclusive", "strict")
COMPARISONS = (Op.LT, Op.LE, Op.GT, Op.GE, Op.EQ)
TRANSFORMS = (
    "identity",
    "bucket[3]",
    "bucket[16]",
    "truncate[1]",
    "truncate[2]",
    "truncate[10]",
    "truncate[1000]",
    *TIME,
    "void",
    "zorder",
)
SOURCES = (
    *(
        pa.bool_(),
        pa.int8(),
        pa.int32(),
        pa.int64(),
        pa.float32(),
        pa.float64(),
        pa.decimal128(9, 2),
        pa.decimal128(38, 10),
    ),
    *(
        pa.date32(),
        pa.date32(),
        pa.timestamp("us"),
        pa.timestamp("us", "UTC"),
        pa.timestamp("ns"),
        pa.timestamp("s"),
        pa.string(),
        pa.string(),
        pa.binary(),
    ),
)


def bind(sql, types):
    return ss.PruningPredicate(
        sql, pa.schema([(name, ARROW.get(t, t)) for name, t in types.items()])
    ).node


def fields(*specs):
    return tuple(
        PartitionField((source,), Transform.parse(transform), name)
        for source, transform, name in specs
    )


def written(transform, v, dtype):
    """Return every partition value under which a writer may put a value.

    It may be cut, wrapped around, beyond the type, or off by one before 1970.
    """
    if v is None or transform.name == "void":
        return [None]
    if transform.name in ("identity", "bucket") or dtype.kind in TEXT:
        array = (
            pa.array([v], pa.large_binary())
            if dtype.kind in TEXT
            else np.array([v], object if dtype.coded else dtype.numpy_type)
        )
        return (
            transform.apply(array, dtype).tolist()
            if transform.name == "bucket" or dtype.kind not in TEXT
            else transform.apply(array, dtype).to_pylist()
        )
    place, result = transform.floor(v, dtype), transform.result_type(dtype)
    late = (
        [place + 1] if place < 0 and transform.name in TIME and not transform.exact(dtype) else []
    )
    low, high = result.lowest, result.highest
    wrapped = (
        [place]
        if dtype.kind is Kind.DECIMAL
        else [(p - low) % (high - low + 1) + low for p in (place, *late)]
    )
    return list(dict.fromkeys((place, *late, *wrapped, min(max(place, low), high))))


def value(r, field):
    """Return a value near 2024 or zero, or near 1970, where ordinals turn negative."""
    if field.dtype.kind in (Kind.DATE, Kind.TIMESTAMP) and r.random() < 0.5:
        unit = 1 if field.dtype.kind is Kind.DATE else 3600 * ty.PER_SECOND[field.dtype.unit]
        return r.randint(-3, 3) * r.choice((1, unit, 24 * unit, 365 * unit)) + r.randint(-1, 1)
    return point(r, field.dtype, r.randint(-3, 3), field.arrow)


def transform_of(transform, v, dtype):
    return written(transform, v, dtype)[-1]


def judge(r, rows=12, predicates=3):
    """Check projections and residuals of a random spec against rows, for each way to write them."""
    columns = [Field((name,), r.choice(SOURCES)) for name in r.sample("xyz", r.randint(1, 2))]
    spec = [
        PartitionField(c.path, Transform.parse(r.choice(TRANSFORMS)), f"p{i}")
        for i, c in enumerate(r.choice(columns) for _ in range(r.randint(1, 3)))
    ]
    types = {c.path: c.dtype for c in columns}
    spec = [
        f for f in spec if f.transform.supports(types[f.source]) or f.transform.name == "zorder"
    ]
    data = [
        {c.path: None if r.random() < 0.15 else value(r, c) for c in columns} for _ in range(rows)
    ]
    batch = pa.record_batch(
        {c.name: array_of([row[c.path] for row in data], c.arrow) for c in columns}
    )
    said = {"TRUE": 0, "pruned": 0, "strict": 0, "gone": 0}
    for _ in range(predicates):
        node = ss.PruningPredicate(predicate(r, columns, plain=True).sql, batch.schema).node
        if any(n.op in (Op.UNKNOWN, Op.CALL) for n in node.walk()):
            continue  # plain Python does not compute calls, such as those of ILIKE
        inclusive, strict = (project(node, spec, mode) for mode in MODES)
        for i, (row, expected) in enumerate(
            zip(data, evaluate_rows(node, batch).to_pylist(), strict=True)
        ):
            assert outcome(node, row) is expected
            values = {
                f.name: None
                if f.transform.name == "zorder"
                else r.choice(written(f.transform, row[f.source], types[f.source]))
                for f in spec
            }
            tuple_ = {(name,): v for name, v in values.items()}
            may, must = outcome(inclusive, tuple_) is True, outcome(strict, tuple_) is True
            note = (
                show(node),
                row,
                values,
                [str(f.transform) for f in spec],
                show(inclusive),
                show(strict),
            )
            assert may or expected is not True, note
            assert not must or expected is True, note
            left = residual(node, spec, values)
            assert evaluate_rows(left, batch.slice(i, 1)).to_pylist() == [expected], (
                note,
                show(left),
            )
            said["TRUE"] += expected is True
            said["pruned"] += not may
            said["strict"] += must
            said["gone"] += left.op is Op.LITERAL
    return said
