"""`advise`: compare what `table.advise` predicts with rewrites of real tables, done by DuckDB."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

import skipstone as ss
from bench.report.report import Options, Report, Requirement
from bench.report.results import CHECKOUT
from bench.rows.data import FOLDER
from skipstone.bindings.layout.advice import Advice, Estimate
from skipstone.bindings.layout.simulate import Kind, Layout
from skipstone.bindings.layout.statements import statements_for

FLIGHTS: Final = """
dest = 'BOS' AND dep_delay > 60
dest = 'HNL'
dest IN ('SFO', 'LAX') AND carrier = 'VX'
carrier = 'HA'
carrier IN ('AS', 'F9', 'YV')
carrier = 'WN' AND dest = 'MDW'
dest = 'ORD' AND origin = 'LGA' AND carrier = 'AA'
dest = 'ACK'
time_hour >= TIMESTAMP '2013-12-24 00:00:00' AND dest = 'HNL'
month = 7 AND dest = 'CLT'
month = 2 AND carrier = 'UA'
flight = 1545
distance > 2500
distance < 200 AND dep_delay > 120
dep_delay > 300
arr_delay > 240 AND carrier = 'EV'
dest = 'SEA' AND carrier = 'DL'
carrier = 'US' AND dest = 'PHX'
origin = 'JFK' AND dest = 'BQN'
tailnum = 'N14228'
"""
LINEITEM: Final = """
l_shipdate >= DATE '1994-01-01' AND l_shipdate < DATE '1995-01-01'
    AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24
l_shipdate <= DATE '1992-03-01'
l_shipdate > DATE '1998-09-01'
l_shipdate BETWEEN DATE '1995-09-01' AND DATE '1995-09-30'
l_shipdate >= DATE '1996-01-01' AND l_shipdate < DATE '1996-04-01'
l_receiptdate >= DATE '1994-01-01' AND l_receiptdate < DATE '1995-01-01' AND l_shipmode = 'MAIL'
l_receiptdate BETWEEN DATE '1997-02-01' AND DATE '1997-02-14'
l_commitdate < DATE '1992-06-01'
l_partkey = 15500
l_partkey BETWEEN 1000 AND 1100
l_partkey IN (5, 9999, 19000) AND l_quantity > 45
l_suppkey = 777
l_suppkey = 42 AND l_shipdate >= DATE '1998-01-01'
l_orderkey = 300000
l_orderkey BETWEEN 100000 AND 110000
l_shipmode = 'AIR' AND l_shipdate BETWEEN DATE '1993-03-01' AND DATE '1993-03-31'
l_returnflag = 'R' AND l_shipdate > DATE '1995-06-01'
l_extendedprice > 100000
l_quantity = 50 AND l_shipdate < DATE '1992-12-01'
l_linestatus = 'F' AND l_partkey < 200
"""
STORE_SALES: Final = """
ss_sold_date_sk BETWEEN 2451180 AND 2451210
ss_sold_date_sk = 2452642
ss_sold_date_sk >= 2452500 AND ss_quantity > 90
ss_sold_date_sk BETWEEN 2450816 AND 2450900 AND ss_store_sk = 4
ss_sold_date_sk BETWEEN 2451911 AND 2452275
ss_sold_date_sk BETWEEN 2451000 AND 2451050 AND ss_promo_sk = 120
ss_item_sk = 9000
ss_item_sk BETWEEN 100 AND 150
ss_item_sk IN (17, 5000, 17999)
ss_item_sk < 300 AND ss_store_sk = 10
ss_customer_sk = 4711
ss_customer_sk BETWEEN 50000 AND 50100
ss_store_sk = 7
ss_store_sk = 8 AND ss_sold_date_sk > 2452400
ss_promo_sk = 300 AND ss_item_sk = 1000
ss_ticket_number = 120000
ss_ticket_number BETWEEN 1000 AND 2000
ss_net_profit < -9000
ss_list_price > 199 AND ss_sold_date_sk < 2450900
ss_cdemo_sk = 1000000
"""


@dataclass(frozen=True)
class Case:
    """A table and its workload of 20 questions."""

    name: str
    folder: Path
    workload: str


def advise(options: Options) -> Report:
    """The advisor's predictions against rewrites of real tables, by DuckDB."""
    report = Report("What `table.advise` predicts, and what rewrites by DuckDB leave to read")
    try:
        import duckdb  # noqa: F401
    except ImportError as e:
        report.leave_out("DuckDB", f"not installed ({e.name})")
        return report
    for case in _cases(report):
        if options.only and case.name not in options.only:
            continue
        with tempfile.TemporaryDirectory() as folder:
            table = Path(folder) / case.name
            if case.name == "lineitem":  # as TPC-H makes it; the demo's is sorted by l_shipdate
                _unsorted(case.folder, table)
            else:
                shutil.copytree(case.folder, table)
            _measure(case, table, report)
    return report


def _unsorted(source: Path, target: Path) -> None:
    """Write a quarter of TPC-H's orders in order of their keys, as eight files of row groups."""
    rows = pq.read_table(source).sort_by("l_orderkey")
    rows = rows.filter(pc.equal(pc.bit_wise_and(rows["l_orderkey"], 3), 1))
    target.mkdir()
    size = -(-rows.num_rows // 8)
    for i in range(8):
        part = rows.slice(i * size, size)
        pq.write_table(part, target / f"{i}.parquet", row_group_size=2048)


def _cases(report: Report) -> Iterator[Case]:
    """Yield the tables that are there; note the others."""
    demo = CHECKOUT / "demo-data"
    for case in (
        Case("flights", demo / "flights", FLIGHTS),
        Case("lineitem", demo / "lineitem-0.1", LINEITEM.replace("\n    ", " ")),
        Case("store_sales", FOLDER / "tpcds-unsorted" / "store_sales", STORE_SALES),
    ):
        if case.folder.exists():
            yield case
        else:
            how = "`make demo`" if case.folder.is_relative_to(demo) else "`python -m bench tpcds`"
            report.leave_out(case.name, f"its data is not there; {how} makes it")


def _measure(case: Case, folder: Path, report: Report) -> None:
    table = ss.scan_parquet(folder)
    total = table.plan().sizes.total
    assert total.bytes is not None
    found: dict[tuple[str, ...], int] = {}
    for source, sample in (("statistics", False), ("a sample", None)):  # None is the default
        advice = table.advise(case.workload, sample=sample)
        if (advice.source == "statistics") != (source == "statistics"):
            raise ValueError(f"{case.name}: expected {source}; it used {advice.source}")
        if advice.unread:
            raise ValueError(f"{case.name}: unread: {advice.unread}")
        tried = [e for e in advice.candidates if e.runnable]
        for estimate in tried:
            key = (estimate.kind, *estimate.keys, "|", *estimate.partition_by)
            if key not in found:
                found[key] = _rewritten(estimate, advice, table, case.workload)
        left = {e: found[(e.kind, *e.keys, "|", *e.partition_by)] for e in tried}
        left[advice.current] = round(advice.current.share * 20 * total.bytes)
        best, whole = min(left.values()), 20 * total.bytes
        first = advice.best or advice.current  # as it is
        done = 1 - left[first] / whole
        errors = [abs(e.share - n / whole) for e, n in left.items()]
        report.rows.append(
            {
                "": f"{case.name}, from {source}",
                "proposed": first.label,
                "now %": 100 * advice.current.share,
                "predicted %": 100 * first.share,
                "rewritten %": 100 * left[first] / whole,
                "best of all %": 100 * best / whole,
                "layouts": len(left),
                "mean error %": 100 * float(np.mean(errors)),
            }
        )
        report.requirements += [
            Requirement(
                f"{case.name}, from {source}: pruned by the rewrite, relative to the prediction",
                done / first.pruned,
                0.8,
            ),
            Requirement(
                f"{case.name}, from {source}: bytes read after the recommended rewrite, relative "
                f"to the best of {len(left)} rewrites",
                left[first] / best,
                1.1,
                at_most=True,
            ),
        ]
    report.notes.append(
        f"{case.name}: {total.bytes:,} bytes in {len(table.plan().verdicts)} row groups"
    )


def _rewritten(estimate: Estimate, advice: Advice, table: Any, workload: str) -> int:
    """Rewrite a table by the proposed statement; return the bytes that the workload reads then."""
    import duckdb

    kind: Kind = estimate.kind  # type: ignore[assignment]
    layout = Layout(
        kind, tuple((k,) for k in estimate.keys), tuple((p,) for p in estimate.partition_by)
    )
    groups = max(advice.containers, 1)
    statement = statements_for(
        layout, "parquet", path=table.path, name=None, files=table.all_files,
        rows_per_group=round((advice.rows or groups) / groups),
        file_bytes=(advice.bytes or 0) // advice.files,
    )[0]  # fmt: skip
    target = Path(f"{table.path}-clustered")
    try:
        with duckdb.connect(config={"threads": 2}) as connection:
            connection.execute(statement.sql)
        clustered = ss.scan_parquet(target)
        rows = clustered.plan().sizes.total.rows
        if rows != advice.rows:
            raise ValueError(f"{estimate.label}: the rewrite has {rows} rows, not {advice.rows}")
        return sum(
            clustered.plan(line).sizes.scan.bytes or 0
            for line in workload.splitlines()
            if line.strip()
        )
    finally:
        shutil.rmtree(target, ignore_errors=True)
