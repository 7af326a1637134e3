"""How `lakes` learns which files an engine would read.

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

Answers = Sequence[int | str]  # numbers of files, or why there is no answer


def _count(kept: set[int], needed: frozenset[int]) -> int | str:
    """Return the number of kept files, or that some files with a matching row are missing."""
    return f"LOST {len(needed - kept)}" if needed - kept else len(kept)


def _number(path: str) -> int:
    m = re.search(r"part-(\d+)\.parquet", path)
    assert m is not None
    return int(m[1])


def own(table: Any, needed: Sequence[frozenset[int]]) -> Answers:
    return [
        _count({_number(f) for f in table.plan(q.sql).files}, n)
        for q, n in zip(QUESTIONS, needed, strict=True)
    ]


def deltalake(folder: Path, needed: Sequence[frozenset[int]]) -> Answers:
    from deltalake import DeltaTable

    table = DeltaTable(str(folder))

    def ask(text: str) -> set[int]:
        return {_number(p) for p in table.file_uris(file_pruning_predicate=text)}

    return _each("deltalake", ask, needed)


def pyiceberg(metadata: Path, needed: Sequence[frozenset[int]]) -> Answers:
    from pyiceberg.table import StaticTable

    table = StaticTable.from_metadata(str(metadata))

    def ask(text: str) -> set[int]:
        return {_number(task.file.file_path) for task in table.scan(row_filter=text).plan_files()}

    return _each("pyiceberg", ask, needed)


def _each(engine: str, ask: Callable[[str], set[int]], needed: Sequence[frozenset[int]]) -> Answers:
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


def duckdb(folder: Path, needed: Sequence[frozenset[int]]) -> Answers:
    """Count the row groups that DuckDB scans, one in each file, after it has opened all files."""
    import duckdb

    con = duckdb.connect()
    con.execute("SET enable_profiling = 'no_output'; SET TimeZone = 'UTC'; SET threads = 1")
    out: list[int | str] = []
    for q, n in zip(QUESTIONS, needed, strict=True):
        rows = {
            r[0]
            for r in con.execute(
                f"SELECT DISTINCT g FROM read_parquet('{folder}/*.parquet') "
                f"WHERE {q.text('DuckDB')}"
            ).fetchall()
        }
        scanned = int(
            json.loads(con.get_profiling_information())["query"]["total_row_groups_scanned"]
        )
        out.append(f"LOST {len(n - rows)}" if n - rows else scanned)
    return out


MARK: Final = "====== question "


def polars(kind: str, table: str, needed: Sequence[frozenset[int]]) -> Answers:
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
        out.append(
            found
            if isinstance(found, str)
            else f"LOST {len(n - set(found))}"
            if n - set(found)
            else read
        )
    return out


def _polars_child(kind: str, table: str) -> None:
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
            out.append(
                sorted(
                    set(
                        frame.filter(condition)
                        .select("g")
                        .collect(engine="streaming")["g"]
                        .to_list()
                    )
                )
            )
        except BaseException as e:  # PanicException does not derive from Exception
            out.append(f"refused: {type(e).__name__}")
    json.dump(out, sys.stdout)


if __name__ == "__main__":
    _polars_child(*sys.argv[1:])
