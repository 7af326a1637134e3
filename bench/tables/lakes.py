"""`lakes`: count the files that each engine would read of one data set.

The data set is a Delta table, an Iceberg table and a folder of Parquet files.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import skipstone as ss
from bench.report.report import OWN, Options, Report, Requirement

FILES: Final = 256
ROWS: Final = 50  # rows in each file
SCHEMA: Final = pa.schema(
    [
        ("g", pa.int32()),
        ("id", pa.int64()),
        ("ts", pa.timestamp("us")),
        ("price", pa.float64()),
        ("name", pa.string()),
        ("note", pa.int32()),
    ]
)
NUM_ROWS: Final = FILES * ROWS


@dataclass(frozen=True)
class Question:
    """A condition in Spark SQL, with the spellings of engines that need another one.

    A spelling of None means that the engine has no such form.
    """

    sql: str
    spellings: tuple[tuple[str, str | None], ...] = ()

    def text(self, engine: str) -> str | None:
        """Return the text for an engine, or None."""
        return dict(self.spellings).get(engine, self.sql)


QUESTIONS: Final = (
    Question("id = 6400"),
    Question("id >= 6000 AND id < 6200"),
    Question("id IN (5, 6400, 12795)"),
    Question("NOT (id < 12000)"),
    Question("id < 100 OR price < 0.1"),
    Question("price > 99.5"),  # NaN is greater in Spark, and one file has it
    Question("price BETWEEN 20 AND 20.5"),
    Question("name LIKE 'k017%'"),
    Question("name >= 'k25' AND note IS NULL"),
    Question("note IS NULL"),
    Question("note IS NOT NULL AND id < 1000"),
    Question(
        "ts < TIMESTAMP '2024-01-01 12:00:00'",
        (
            ("pyiceberg", "ts < '2024-01-01T12:00:00'"),
            ("Polars", "pl.col('ts') < datetime(2024, 1, 1, 12)"),
        ),
    ),
    Question(
        "CAST(ts AS DATE) = DATE '2024-01-03'",
        (("pyiceberg", None), ("Polars", "pl.col('ts').dt.date() == date(2024, 1, 3)")),
    ),
    Question("id + 10 < 100", (("pyiceberg", None),)),
    Question("abs(id - 6400) < 60", (("pyiceberg", None),)),
    Question(f"id IN ({', '.join(str(v) for v in range(0, NUM_ROWS, 50))}) AND name < 'k002'"),
)


def make(folder: Path) -> list[Path]:
    """Write the files.

    `id` and `ts` ascend; `price`, with one NaN, and `name` jump; `note` is all NULL in some files.
    """
    r = np.random.default_rng(17)
    paths = []
    for g in range(FILES):
        ids = g * ROWS + np.arange(ROWS)
        low = g * 97 % FILES
        table = pa.table(
            {
                "g": np.full(ROWS, g),
                "id": ids,
                "ts": pa.array(1_704_067_200_000_000 + ids * 30_000_000).cast(pa.timestamp("us")),
                "price": np.where(
                    (g == 7) & (np.arange(ROWS) == 3),
                    np.nan,
                    low / FILES * 90 + r.random(ROWS) * 10,
                ),
                "name": [f"k{low:03}-{v:04}" for v in r.integers(0, 10_000, ROWS)],
                "note": pa.array(
                    r.integers(0, 100, ROWS),
                    mask=(np.full(ROWS, g % 10 == 0)) | (r.random(ROWS) < 0.02 * (g % 3)),
                ),
            }
        ).cast(SCHEMA)
        paths.append(folder / f"part-{g:05}.parquet")
        pq.write_table(table, paths[-1])
    return paths


Answers = Sequence[int | str]  # numbers of files, or why there is no answer


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
            f"{OWN}, Delta": lambda: _own(ss.scan_delta(folder), needed),
            "deltalake": lambda: _deltalake(folder, needed),
            "Polars, Delta": lambda: _polars("delta", str(folder), needed),
            f"{OWN}, Iceberg": lambda: _own(ss.scan_iceberg(iceberg), needed),
            "pyiceberg": lambda: _pyiceberg(iceberg, needed),
            "Polars, Iceberg": lambda: _polars("iceberg", str(iceberg), needed),
            f"{OWN}, Parquet": lambda: _own(ss.scan_parquet(folder / "*.parquet"), needed),
            "DuckDB, Parquet": lambda: _duckdb(folder, needed),
        }
        found: dict[str, Answers] = {}
        for engine, ask in contestants.items():
            try:
                found[engine] = ask()
            except ImportError as e:
                report.leave_out(engine, f"not installed ({e.name})")
    for i, q in enumerate(QUESTIONS):
        text = q.sql if len(q.sql) < 60 else q.sql[:50] + "..."
        report.rows.append(
            {
                "": text,
                "needed": len(needed[i]),
                **{engine: answers[i] for engine, answers in found.items()},
            }
        )
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
        Requirement("files with a match that Skipstone leaves out", lost, 0, at_most=True),
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
        theirs = [
            a for name in others if isinstance(a := found.get(name, [""] * len(QUESTIONS))[i], int)
        ]
        if not isinstance(own, int) or any(a < own for a in theirs):
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


def _count(kept: set[int], needed: frozenset[int]) -> int | str:
    """Return the number of kept files, or that some files with a matching row are missing."""
    return f"LOST {len(needed - kept)}" if needed - kept else len(kept)


def _number(path: str) -> int:
    m = re.search(r"part-(\d+)\.parquet", path)
    assert m is not None
    return int(m[1])


def as_delta(folder: Path) -> None:
    """Make the files a Delta table in place."""
    from deltalake import convert_to_deltalake

    convert_to_deltalake(str(folder))


def as_iceberg(folder: Path, paths: Sequence[Path]) -> Path:
    """Make the files an Iceberg table; return the path of its metadata."""
    from pyiceberg.catalog.sql import SqlCatalog

    folder.mkdir()
    catalog = SqlCatalog(
        "bench", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}"
    )
    catalog.create_namespace("bench")
    table = catalog.create_table("bench.t", SCHEMA)
    table.add_files([str(p) for p in paths])
    return Path(table.metadata_location.removeprefix("file://"))


def _own(table: Any, needed: Sequence[frozenset[int]]) -> Answers:
    return [
        _count({_number(f) for f in table.plan(q.sql).files}, n)
        for q, n in zip(QUESTIONS, needed, strict=True)
    ]


def _deltalake(folder: Path, needed: Sequence[frozenset[int]]) -> Answers:
    from deltalake import DeltaTable

    table = DeltaTable(str(folder))

    def ask(text: str) -> set[int]:
        return {_number(p) for p in table.file_uris(file_pruning_predicate=text)}

    return _each("deltalake", ask, needed)


def _pyiceberg(metadata: Path, needed: Sequence[frozenset[int]]) -> Answers:
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


def _duckdb(folder: Path, needed: Sequence[frozenset[int]]) -> Answers:
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


def _polars(kind: str, table: str, needed: Sequence[frozenset[int]]) -> Answers:
    """Count the files that Polars' readers start on, which it prints with POLARS_VERBOSE.

    Polars reads that variable once, so it runs in a process of its own.
    """
    import polars as _  # noqa: F401

    environment = {**os.environ, "POLARS_VERBOSE": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "bench.tables.lakes", kind, table],
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
