"""Ask engines which files they would read, for `lakes`.

`python -m bench.tables.lake_engines` asks Polars in a process of its own.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from bench.tables.lake_data import QUESTIONS

Answers = Sequence[int | str]  # for each question the number of files, or why there is no answer
Needed = Sequence[frozenset[int]]  # for each question the files with a matching row
MARK: Final = "====== question "  # printed before what Polars says of a question


def _count(kept: set[int], needed: frozenset[int], read: int | None = None) -> int | str:
    """Return how many files were read, or how many of the needed ones were left out.

    Without `read`, the kept files are all that were read.
    """
    if needed - kept:
        return f"LOST {len(needed - kept)}"
    return len(kept) if read is None else read


def _number(path: str) -> int:
    """Return the number of a file of the data set."""
    m = re.search(r"part-(\d+)\.parquet", path)
    assert m is not None
    return int(m[1])


def own(table: Any, needed: Needed) -> Answers:
    """Count the files in Skipstone's plans of a table."""
    return [
        _count({_number(f) for f in table.plan(q.sql).files}, n)
        for q, n in zip(QUESTIONS, needed, strict=True)
    ]


def deltalake(folder: Path, needed: Needed) -> Answers:
    """Count the files that `file_uris` names."""
    from deltalake import DeltaTable

    table = DeltaTable(str(folder))

    def ask(text: str) -> set[int]:
        return {_number(p) for p in table.file_uris(file_pruning_predicate=text)}

    return _each("deltalake", ask, needed)


def pyiceberg(metadata: Path, needed: Needed) -> Answers:
    """Count the files that `plan_files` names."""
    from pyiceberg.table import StaticTable

    table = StaticTable.from_metadata(str(metadata))

    def ask(text: str) -> set[int]:
        return {_number(task.file.file_path) for task in table.scan(row_filter=text).plan_files()}

    return _each("pyiceberg", ask, needed)


def _each(engine: str, ask: Callable[[str], set[int]], needed: Needed) -> Answers:
    """Ask an engine every question; note the forms that it lacks and the errors that it raises."""
    out: list[int | str] = []
    for q, n in zip(QUESTIONS, needed, strict=True):
        if (text := q.text(engine)) is None:
            out.append("no such form")
            continue
        try:
            out.append(_count(ask(text), n))
        except Exception as e:  # engines raise errors of many classes
            out.append(f"refused: {type(e).__name__}")
    return out


def duckdb(folder: Path, needed: Needed) -> Answers:
    """Count the row groups that DuckDB scans, one in each file, after it has opened all files."""
    import duckdb

    con = duckdb.connect()
    con.execute("SET enable_profiling = 'no_output'; SET TimeZone = 'UTC'; SET threads = 1")
    out: list[int | str] = []
    for q, n in zip(QUESTIONS, needed, strict=True):
        source = f"read_parquet('{folder}/*.parquet')"
        query = f"SELECT DISTINCT g FROM {source} WHERE {q.text('DuckDB')}"
        found = {row[0] for row in con.execute(query).fetchall()}
        profile = json.loads(con.get_profiling_information())
        out.append(_count(found, n, int(profile["query"]["total_row_groups_scanned"])))
    return out


def polars(kind: str, table: str, needed: Needed) -> Answers:
    """Count the files that Polars' readers start on, which it prints with POLARS_VERBOSE.

    Polars reads that variable once, so it runs in a process of its own.
    """
    import polars as _  # noqa: F401

    environment = {**os.environ, "POLARS_VERBOSE": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "bench.tables.lake_engines", kind, table],
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    out: list[int | str] = []
    for found, printed, n in zip(
        json.loads(done.stdout), done.stderr.split(MARK)[1:], needed, strict=True
    ):
        read = printed.count("[ParquetFileReader]: project: ")
        out.append(found if isinstance(found, str) else _count(set(found), n, read))
    return out


def _polars_child(kind: str, table: str) -> None:
    """Print the files that Polars finds for each question; the parent reads standard error."""
    import datetime as dt

    import polars as pl

    names = {"pl": pl, "date": dt.date, "datetime": dt.datetime}
    out: list[list[int] | str] = []
    for q in QUESTIONS:
        print(MARK, file=sys.stderr, flush=True)
        text = q.text("Polars") or ""
        try:
            condition = eval(text, names) if text.startswith("pl.") else pl.sql_expr(text)
            frame = pl.scan_delta(table) if kind == "delta" else pl.scan_iceberg(table)
            rows = frame.filter(condition).select("g").collect(engine="streaming")
            out.append(sorted(set(rows["g"].to_list())))
        except BaseException as e:  # PanicException does not derive from Exception
            out.append(f"refused: {type(e).__name__}")
    json.dump(out, sys.stdout)


if __name__ == "__main__":
    _polars_child(*sys.argv[1:])
