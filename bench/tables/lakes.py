"""`lakes`: count the files that each engine would read of one data set.

The data set is a Delta table, an Iceberg table and a folder of Parquet files.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import skipstone as ss
from bench.report.report import OWN, Options, Report, Requirement
from bench.tables import lake_engines
from bench.tables.lake_data import FILES, QUESTIONS, Question, as_delta, as_iceberg, make
from bench.tables.lake_engines import Answers


def lakes(options: Options) -> Report:
    """Files that each engine would read of the same data, as Delta, Iceberg and Parquet."""
    report = Report(
        f"{FILES} files as a Delta table, an Iceberg table and a folder: "
        "files that an engine would read"
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "data"
        folder.mkdir()
        paths = make(folder)
        iceberg = as_iceberg(Path(name) / "catalog", paths)
        as_delta(folder)
        whole = pa.concat_tables([pq.read_table(p) for p in paths])
        needed = [frozenset(_matching(q, whole)) for q in QUESTIONS]
        contestants: dict[str, Callable[[], Answers]] = {
            f"{OWN}, Delta": lambda: lake_engines.own(ss.scan_delta(folder), needed),
            "deltalake": lambda: lake_engines.deltalake(folder, needed),
            "Polars, Delta": lambda: lake_engines.polars("delta", str(folder), needed),
            f"{OWN}, Iceberg": lambda: lake_engines.own(ss.scan_iceberg(iceberg), needed),
            "pyiceberg": lambda: lake_engines.pyiceberg(iceberg, needed),
            "Polars, Iceberg": lambda: lake_engines.polars("iceberg", str(iceberg), needed),
            f"{OWN}, Parquet": lambda: lake_engines.own(
                ss.scan_parquet(folder / "*.parquet"), needed
            ),
            "DuckDB, Parquet": lambda: lake_engines.duckdb(folder, needed),
        }
        found: dict[str, Answers] = {}
        for engine, ask in contestants.items():
            try:
                found[engine] = ask()
            except ImportError as e:
                report.leave_out(engine, f"not installed ({e.name})")
    for i, q in enumerate(QUESTIONS):
        text = q.sql if len(q.sql) < 60 else q.sql[:50] + "..."
        answered = {engine: answers[i] for engine, answers in found.items()}
        report.rows.append({"": text, "needed": len(needed[i]), **answered})
    more = sum(_behind(i, found) for i in range(len(QUESTIONS)))
    lost = sum(
        str(a).startswith("LOST")
        for engine, answers in found.items()
        if engine.startswith(OWN)
        for a in answers
    )
    report.requirements += [
        Requirement(
            "questions where an engine that loses no row reads fewer files "
            "of a Delta or Iceberg table",
            more,
            0,
            at_most=True,
        ),
        Requirement("files with a match that Skipstone skips", lost, 0, at_most=True),
    ]
    report.notes.append(
        "DuckDB reads Delta and Iceberg only by extensions that have to be downloaded. Here it "
        "gets the files, and opens each of them."
    )
    return report


def _behind(i: int, found: dict[str, Answers]) -> bool:
    """Return True if an engine reads fewer files than Skipstone, of the same kind of table."""
    for kind, others in {
        "Delta": ("deltalake", "Polars, Delta"),
        "Iceberg": ("pyiceberg", "Polars, Iceberg"),
        "Parquet": ("DuckDB, Parquet",),
    }.items():
        own = found[f"{OWN}, {kind}"][i]
        theirs = [found[name][i] for name in others if name in found]
        if not isinstance(own, int) or any(isinstance(a, int) and a < own for a in theirs):
            return True
    return False


def _matching(q: Question, whole: pa.Table) -> set[int]:
    """Return the files that hold a matching row, found by the row evaluator."""
    from skipstone.ir.rows import matching_rows

    node = ss.PruningPredicate(q.sql, whole.schema).node
    return {
        g
        for batch in whole.to_batches()
        for g in matching_rows(node, batch).column("g").to_pylist()
    }
