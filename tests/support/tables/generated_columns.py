"""Tables with generated partition columns, computed from rows as a session in some zone would."""

import datetime as dt
import json
import re

import pyarrow as pa
import pyarrow.compute as pc

from skipstone.bindings.predicates.sql import parse
from skipstone.ir.bind import bind_scalar
from skipstone.ir.node import Op
from skipstone.ir.rows import values_of
from skipstone.ir.session import Session
from skipstone.ir.types import leaves_of
from skipstone.ir.values import to_array
from skipstone.ir.zones import zone_of
from tests.support.tables.delta_log import Log, delta_schema, spark_stats

GENERATED = "delta.generationExpression"
STAMP, WALL, DATE, TEXT = pa.timestamp("us", "UTC"), pa.timestamp("us"), pa.date32(), pa.string()
NEST = {"y": "YEAR({})", "m": "MONTH({})", "d": "DAY({})", "h": "HOUR({})"}
DDL = {STAMP: "TIMESTAMP", WALL: "TIMESTAMP_NTZ", DATE: "DATE", TEXT: "STRING"}


def nest(names):
    return {n: ("INT", NEST[n]) for n in names}


# Source type, and the generated columns: name -> (type, expression).
FORMS = [
    *((kind, {"p": ("DATE", "CAST({} AS DATE)")}) for kind in (STAMP, WALL, DATE)),
    *(
        (kind, nest(names))
        for kind in (STAMP, WALL)
        for names in ("y", "ym", "ymd", "ymdh", "mh", "dh")
    ),
    *((DATE, nest(names)) for names in ("y", "ym", "ymd", "md")),
    *(
        (kind, {"p": ("DATE", f"trunc({{}}, '{unit}')")})
        for kind in (STAMP, WALL, DATE)
        for unit in ("YEAR", "quarter", "MM", "week")
    ),
    *(
        (kind, {"p": ("TIMESTAMP", f"date_trunc('{unit}', {{}})")})
        for kind in (STAMP, DATE)
        for unit in ("YEAR", "quarter", "month", "week", "DAY")
    ),
    *(
        (STAMP, {"p": ("TIMESTAMP", f"date_trunc('{unit}', {{}})")})
        for unit in ("HOUR", "minute", "second", "millisecond", "microsecond")
    ),
    *(
        (STAMP, {"p": ("STRING", f"date_format({{}}, '{p}')")})
        for p in ("yyyy", "yyyy-MM", "yyyyMM", "yyyy-MM-dd", "yyyyMMdd", "yyyy-MM-dd-HH")
    ),
    *(
        (DATE, {"p": ("STRING", f"date_format({{}}, '{p}')")})
        for p in ("yyyy", "yyyy-MM", "yyyy-MM-dd", "yyyy-MM-dd-HH")
    ),
    (
        DATE,
        {
            "p": ("TIMESTAMP", "date_trunc('month', CAST({} AS TIMESTAMP))"),
            "q": ("INT", "YEAR(CAST({} AS TIMESTAMP))"),
        },
    ),
    (
        DATE,
        {
            "p": ("TIMESTAMP", "date_trunc('YEAR', {})"),
            "m": ("INT", "MONTH({})"),
            "d": ("INT", "DAY({})"),
        },
    ),
    (STAMP, {"d": ("DATE", "CAST({} AS DATE)"), "h": ("INT", "HOUR({})")}),
    (
        STAMP,
        {
            "p": ("INT", "YEAR(CAST({} AS DATE))"),
            "q": ("TIMESTAMP", "date_trunc('day', CAST({} AS DATE))"),
        },
    ),
    *(
        (TEXT, {"p": ("STRING", f"substring({{}}, {args})")})
        for args in ("1, 3", "1, 1", "0, 2", "2, 3", "-2, 1", "1", "2")
    ),
    (TEXT, {"p": ("STRING", "left({}, 2)"), "q": ("STRING", "substr({}, 2, 1)")}),
    *((kind, {"p": (ddl, "{}")}) for kind, ddl in DDL.items()),
    *(
        (kind, {"p": (ddl, "{}")})
        for kind, ddl in [
            (pa.int32(), "INT"),
            (pa.float64(), "DOUBLE"),
            (pa.bool_(), "BOOLEAN"),
            (pa.decimal128(20, 3), "DECIMAL(20,3)"),
        ]
    ),
]


def described(kind, columns, ddl=None):
    own = (
        ddl
        or {
            pa.int32(): "INT",
            pa.float64(): "DOUBLE",
            pa.bool_(): "BOOLEAN",
            pa.decimal128(20, 3): "DECIMAL(20,3)",
        }.get(kind)
        or DDL[kind]
    )
    text = ", ".join([f"x {own}", *(f"{n} {t}" for n, (t, _) in columns.items())])
    return schema_of(text, {n: e.format("x") for n, (_, e) in columns.items()})


def schema_of(ddl, expressions):
    """Return the `schemaString` of a DDL, as an object with the expressions of its columns."""
    described = delta_schema(ddl)
    for f in described["fields"]:
        if f["name"] in expressions:
            f["metadata"][GENERATED] = expressions[f["name"]]
    return described


def generate(expression, rows, zone):
    """Return Spark's values of an expression on each row, with this session time zone."""
    formatted = re.fullmatch(r"\(?date_format\((.*), *'(.*)'\)+", expression, re.IGNORECASE)
    if formatted:
        return date_format(generate(formatted[1], rows, zone), formatted[2], zone)
    scalar = bind_scalar(parse(expression)[0], leaves_of(rows.schema), Session(zone))
    assert scalar.op is not Op.UNKNOWN, scalar.value
    found = values_of(scalar, rows.to_batches()[0], {})
    assert not found.may_raise.any(), expression
    return to_array(found, rows.num_rows)


def date_format(times, pattern, zone):
    """Return Spark's date_format, for years from 1000 to 9999."""
    form = pattern.replace("yyyy", "%Y").replace("MM", "%m").replace("dd", "%d").replace("HH", "%H")
    walls = (
        times.cast(pa.timestamp("us"))
        if pa.types.is_date32(times.type)
        else pc.local_timestamp(pc.cast(times, pa.timestamp("us", zone)))
    )
    return pa.array(
        [None if t is None else t.strftime(form) for t in walls.to_pylist()], pa.string()
    )


def partition_text(value, zone, utc):
    """Return a partition value as writers spell it: instants in UTC, or on the session's clock."""
    if value is None:
        return None
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        form, at = (
            ("%Y-%m-%dT%H:%M:%S.%fZ", dt.UTC) if utc else ("%Y-%m-%d %H:%M:%S.%f", zone_of(zone))
        )
        return value.astimezone(at).strftime(form)
    if isinstance(value, bytes):
        return value.decode()
    return str(value).lower() if isinstance(value, bool) else str(value)


def written(folder, described, rows, partition_by, zone, utc=True, stats=None):
    """Write the log of a table of rows, with a file for each combination of partition values.

    Args:
        folder: The table's folder.
        described: The `schemaString`, as an object.
        rows: The columns that are not generated.
        partition_by: Names of the generated columns.
        zone: The zone of the session that writes.
        utc: True if partition values write instants in UTC.
        stats: None, or ... for Spark's statistics.

    Returns:
        The log, and the rows of each file by its number.
    """
    expressions = {
        f["name"]: f["metadata"][GENERATED]
        for f in described["fields"]
        if GENERATED in f["metadata"]
    }
    values = [generate(expressions[name], rows, zone).to_pylist() for name in partition_by]
    files = {}
    for i, row in enumerate(zip(*values, strict=True)):
        files.setdefault(tuple(partition_text(v, zone, utc) or None for v in row), []).append(i)
    log = Log(folder, described, partition_by, features=("timestampNtz",))
    log.commit(
        *(
            add(
                f"{i}.parquet",
                dict(zip(partition_by, key, strict=True)),
                rows.take(pa.array(at)),
                stats,
            )
            for i, (key, at) in enumerate(files.items())
        )
    )
    return log, list(files.values())


def add(path, values, rows, stats):
    """Return the action of a file that is never read."""
    action = {
        "path": path,
        "partitionValues": values,
        "size": 1,
        "modificationTime": 1,
        "dataChange": True,
    }
    return {"add": action if stats is None else action | {"stats": json.dumps(spark_stats(rows))}}
