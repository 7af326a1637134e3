"""`computed`: conditions on computed values over rows in memory, compared with DuckDB.

Both filter the same Arrow table. The numbers of rows are compared before anything is timed.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa

from bench.report.measure import Timing, interleave
from bench.report.report import OWN, Options, Report, Requirement, equal
from bench.rows.engines import CORES

ROWS: Final = 3_000_000
ROUNDS: Final = 3
MAX_RATIO: Final = 3.0  # times DuckDB's time
WORDS: Final = ("final", "pending", "regular", "special", "express", "ironic", "silent", "bold")
# name -> the condition for Spark, and for DuckDB where it is written differently.
CONDITIONS: Final = {
    "decimal + -": ("price - cost + 1.50 > 500", ""),
    "decimal *": ("price * (1 - discount) > 9000", ""),
    "decimal * *": ("price * (1 - discount) * (1 + tax) > 9500", ""),
    "decimal / int": ("price / quantity > 150", ""),
    "decimal / decimal": ("price / cost > 2.5", ""),
    "decimal %": ("price % 10 = 2.25", ""),
    "products": ("price * quantity > cost * 30", ""),
    "decimal as int": ("CAST(price AS INT) % 100 = 7", "CAST(trunc(price) AS INT) % 100 = 7"),
    "decimal as double": ("CAST(price AS DOUBLE) * x > 4000.5", ""),
    "int as decimal": ("CAST(quantity AS DECIMAL(12,2)) * 1.5 > 60.25", ""),
    "narrower decimal": ("CAST(price AS DECIMAL(15,1)) = 1000.5", ""),
    "round of decimal": ("round(price, 1) = 2500.5", ""),
    "round of double": ("round(x, 2) = 0.5", ""),
    "abs": ("abs(quantity - 25) > 20", ""),
    "least, greatest": ("greatest(price, cost * 2) < 1000 AND least(quantity, k) > 10", ""),
    "coalesce": ("coalesce(maybe, quantity) > 45", ""),
    "case": (
        "CASE WHEN quantity > 40 THEN price WHEN quantity > 20 THEN cost ELSE 0 END > 800", "",
    ),
    "year, month": ("year(day) = 1998 AND month(day) IN (3, 7)", ""),
    "day, quarter": ("day(day) = 15 OR quarter(day) = 2", ""),
    "date_add": ("date_add(day, 30) < shipped", "day + 30 < shipped"),
    "datediff": ("datediff(shipped, day) > 80", "date_diff('day', day, shipped) > 80"),
    "date_trunc": (
        "date_trunc('MONTH', moment) = TIMESTAMP_NTZ '1997-05-01 00:00:00'",
        "date_trunc('month', moment) = TIMESTAMP '1997-05-01 00:00:00'",
    ),
    "hour": ("extract(HOUR FROM moment) BETWEEN 8 AND 17", ""),
    "timestamp as date": ("CAST(moment AS DATE) = DATE '1996-02-29'", ""),
    "modulo": ("k % 7 = 3", ""),
    "integers": ("k * 3 + quantity > 1000000 OR k % 2 = 1", ""),
    "exponential": ("exp(x) < 1.5", ""),
    "logarithm": ("ln(lat) > 3.95", ""),
    "power": ("pow(x, 3) > 0.5", ""),
    "distance": (
        "2 * 6371 * asin(sqrt(pow(sin(radians(lat - 52.37) / 2), 2) + cos(radians(lat))"
        " * cos(radians(52.37)) * pow(sin(radians(lon - 4.9) / 2), 2))) < 10", "",
    ),
    "upper, substr": ("upper(substr(code, 1, 3)) = 'C04'", ""),
    "concat, length": ("length(concat(code, comment)) > 52", ""),
    "lower, LIKE": ("lower(comment) LIKE '%special%'", ""),
    "trim, IN": ("trim(code) IN ('c000123', 'c054321', 'c099999')", ""),
}  # fmt: skip


def table(rows: int) -> pa.Table:
    """Make the rows: decimals, numbers, dates, times and text, some of them NULL."""
    r = np.random.default_rng(0)
    days = r.integers(8035, 10591, rows)
    texts = np.array(WORDS)[r.integers(0, len(WORDS), (rows // 30 + 1, 8))]
    comments = pa.array([" ".join(t)[:44].ljust(44, ".") for t in texts.tolist()])
    codes = pa.array([f"c{i:06}   "[: 10 - i % 3] for i in range(100_000)])
    return pa.table(
        {
            "price": _decimal(r.integers(90_000, 1_100_000, rows), 15),
            "cost": _decimal(r.integers(100, 100_000, rows), 15),
            "discount": _decimal(r.integers(0, 11, rows), 7),
            "tax": _decimal(r.integers(0, 9, rows), 7),
            "quantity": pa.array(r.integers(1, 51, rows, np.int32)),
            "maybe": pa.array(r.integers(1, 51, rows, np.int32), mask=r.random(rows) < 0.1),
            "k": pa.array(r.integers(0, 6_000_000, rows)),
            "x": pa.array(r.random(rows)),
            "lat": pa.array(r.uniform(50, 54, rows)),
            "lon": pa.array(r.uniform(0, 6, rows)),
            "day": pa.array(days.astype(np.int32)).cast(pa.date32()),
            "shipped": pa.array(
                (days + r.integers(1, 122, rows)).astype(np.int32), mask=r.random(rows) < 0.02
            ).cast(pa.date32()),
            "moment": pa.array(days * 86_400_000_000 + r.integers(0, 86_400_000_000, rows)).cast(
                pa.timestamp("us")
            ),
            "code": codes.take(pa.array(r.integers(0, len(codes), rows))),
            "comment": comments.take(pa.array(r.integers(0, len(comments), rows))),
        }
    )


def _decimal(cents: Any, precision: int) -> pa.Array:
    words = np.zeros((len(cents), 2), np.int64)
    words[:, 0] = cents
    return pa.Array.from_buffers(
        pa.decimal128(precision, 2), len(cents), [None, pa.py_buffer(words)]
    )


def _by_duckdb(con: Any, sql: str) -> pa.Table:
    return con.sql(sql).to_arrow_table()


def computed(options: Options) -> Report:
    """Filter 3,000,000 rows in memory by conditions on computed values."""
    return measured(ROWS, options)


def measured(rows: int, options: Options) -> Report:
    """Measure over a number of rows; `--only` chooses conditions."""
    report = Report(f"{rows:,} rows in memory: ms of the conditions on computed values")
    try:
        import duckdb
    except ImportError:
        report.leave_out("DuckDB", "it is not installed")
        return report
    from skipstone.bindings.predicates.predicate import PruningPredicate
    from skipstone.bindings.tables.row_filter import matching_rows
    from skipstone.ir.rows import matching_rows as evaluated

    t = table(rows)
    batch = t.combine_chunks().to_batches()[0]
    con = duckdb.connect(config={"threads": CORES})
    con.register("t", t)
    ratios: dict[str, float] = {}
    totals: dict[str, list[Timing]] = {}
    for name, (condition, other) in CONDITIONS.items():
        if options.only and name not in options.only:
            continue
        node = PruningPredicate(condition, t.schema).node
        sql = f"SELECT * FROM t WHERE {other or condition}"
        runs: dict[str, Callable[[], pa.Table]] = {
            OWN: partial(matching_rows, node, batch),
            "evaluator": partial(evaluated, node, batch),
            "DuckDB": partial(_by_duckdb, con, sql),
        }
        counts = {engine: run().num_rows for engine, run in runs.items()}
        for engine in runs:
            equal(f"{engine}, {condition}", [counts[engine]], [counts["DuckDB"]])
        times = interleave(runs, options.rounds or ROUNDS)
        ratios[name] = times[OWN].times(times["DuckDB"])
        report.rows.append(
            {
                "": name,
                "rows": f"{counts[OWN]:,}",
                **{engine: 1e3 * timing.median for engine, timing in times.items()},
                "/DuckDB": ratios[name],
            }
        )
        for engine, timing in times.items():
            report.time(f"{name}: {engine}", timing, ("DuckDB", times["DuckDB"]), group=name)
            totals.setdefault(engine, []).append(timing)
    if ratios:
        means = {
            engine: Timing(
                tuple(map(statistics.geometric_mean, zip(*(t.seconds for t in ts), strict=True)))
            )
            for engine, ts in totals.items()
        }
        own, peer = means[OWN], means["DuckDB"]
        report.time("all conditions: DuckDB", peer, own=own, engine="DuckDB", group="conditions")
        report.notes.append(
            f"Geometric mean of the times, divided by DuckDB's: {own.times(peer):.2f}. evaluator: "
            "the row evaluator alone, without the kernels that judge plain comparisons."
        )
        slowest = max(ratios, key=lambda name: ratios[name])
        text = f"the slowest of {len(ratios)} conditions ({slowest}): time relative to DuckDB"
        report.requirements.append(Requirement(text, ratios[slowest], MAX_RATIO, at_most=True))
    return report
