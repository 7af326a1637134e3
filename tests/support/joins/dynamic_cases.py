"""Dynamic filters for several tests."""

import datetime as dt
import os

import numpy as np
import pyarrow as pa

import skipstone as ss
from skipstone.bindings.filters.filter import DynamicFilter
from skipstone.bindings.filters.scan import DynamicFilters
from skipstone.ir.session import Session

NEVER, MAYBE, ALWAYS = 0, 1, 2


def schema(**types):
    return pa.schema(list(types.items()))


def collected(of, *batches, **options):
    """Return a filter of batches: dicts of columns, typed by the schema, or Arrow tables."""
    c = ss.DynamicFilterCollector(of.names, of, **options)
    for b in batches:
        c.add(
            b
            if not isinstance(b, dict)
            else pa.table(
                {
                    n: v if isinstance(v, pa.Array) else pa.array(v, of.field(n).type)
                    for n, v in b.items()
                }
            )
        )
    return c.finish()


V05 = [
    ("42", pa.int32(), 42),
    ("9876543210", pa.int64(), 9876543210),
    ("41", pa.int16(), 41),
    ("40", pa.int8(), 40),
    ("1234", pa.string(), "1234"),
    ("2022-2-22", pa.date32(), dt.date(2022, 2, 22)),
    (
        "2022-2-22 22:02:20.020222022",
        pa.timestamp("ns"),
        np.datetime64("2022-02-22T22:02:20.020222022"),
    ),
]


KEY = schema(k=pa.int64())


def keys(*values, **options):
    """Return a filter of values of the column k."""
    return collected(KEY, {"k": list(values)}, **options)


def names(plan):
    """Return the names of a plan's files, without `.parquet`."""
    return [os.path.basename(p).removesuffix(".parquet") for p in plan.files]


def judge(data, of, containers, limit=None, **options):
    """Return the verdicts of containers of 10 rows, given (min, max, null count) by column."""
    columns = {}
    for i, f in enumerate(of):
        given = [c[i] for c in containers]
        columns[f.name] = {
            key: pa.array([g[j] for g in given], f.type if j < 2 else pa.int64())
            for j, key in enumerate(("min", "max", "null_count"))
        }
        if pa.types.is_floating(f.type):
            columns[f.name]["nan_count"] = [g[3] if len(g) > 3 else 0 for g in given]
    stats = ss.Statistics.from_dict(columns, of, row_count=[10] * len(containers))
    f = data if isinstance(data, DynamicFilter) else DynamicFilter(data, **options)
    return (
        DynamicFilters((f,), of, Session())
        .judged(stats, np.full(len(containers), ALWAYS, np.uint8))
        .tolist()
    )


def box(a, b, *more):
    return (a, b, *(more or (0,)))
