"""The part of `first` about processes: a fresh one, from its start to its end.

`python -m bench.first.processes WHAT FOLDER` is such a process.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from bench.report.report import OWN, Options, Report, Requirement

WHERE: Final = "dest = 'BOS' AND dep_delay > 60"
COLUMNS: Final = ("carrier", "flight", "dep_delay")
NEW: Final = "Skipstone, no loop compiled"
# Task of a process -> the milliseconds that it may take.
GOALS: Final = {"skipstone plan": 350.0, "skipstone --help": 120.0}


def first_processes(options: Options) -> Report:
    """Fresh processes: rows of the flights of 2013, and the shell."""
    from bench.report.measure import Timing
    from skipstone.bindings.shell.demo import make_flights
    from skipstone.kernels.decode.footer_layout import WALK
    from skipstone.kernels.decode.page_layout import HEADERS, SOUND
    from skipstone.kernels.decode.spans import GATHER
    from skipstone.kernels.run.loops import compiled

    report = Report("fresh processes over the flights of 2013 in 12 files; ms")
    report.notes.append(
        "Fresh processes find the loops that an earlier, longer process compiled; where none ran, "
        f"as on a new machine, see {NEW!r}."
    )
    for loop in (WALK, GATHER, HEADERS, SOUND):  # as if a longer process had run here before
        compiled(loop)
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as empty:
        path = str(make_flights(Path(folder)))
        shell = [sys.executable, "-m", "skipstone"]
        commands: Mapping[str, list[str]] = {
            **{what: [sys.executable, "-m", __name__, what, path] for what in ENGINES},
            NEW: [sys.executable, "-m", __name__, OWN, path],
            "skipstone plan": [*shell, "plan", path, "--where", WHERE],
            "skipstone --help": [*shell, "--help"],
        }
        seconds: dict[str, list[float]] = {what: [] for what in commands}
        answers: dict[str, str] = {}
        for i in range(1 + (options.rounds or 7)):
            for what, command in commands.items():
                cache = {"SKIPSTONE_CACHE_DIR": f"{empty}/{i}"} if what == NEW else {}
                env = {**os.environ, **cache}
                start = time.perf_counter()
                done = subprocess.run(command, check=True, capture_output=True, text=True, env=env)
                if i:  # the first round fills caches
                    seconds[what].append(time.perf_counter() - start)
                answers[what] = done.stdout
    if len({answers[what] for what in (*ENGINES, NEW)}) != 1:
        raise ValueError(f"engines answer differently: {answers}")
    timings = {what: Timing(tuple(s)) for what, s in seconds.items()}
    others = min(timings[what].best for what in ENGINES if what != OWN)
    for what, t in timings.items():
        report.rows.append({"": what, "ms": t.best * 1e3, "goal": GOALS.get(what, "")})
        group = "rows of a condition" if what in ENGINES else what
        report.time(what, t, engine=what if what in ENGINES else OWN, group=group)
        if what in GOALS:
            report.requirements.append(
                Requirement(f"{what}, ms: best", t.best * 1e3, GOALS[what], at_most=True)
            )
    text = "rows that match a condition, in a fresh process: time relative to the best other engine"
    report.requirements.append(Requirement(text, timings[OWN].best / others, 1, at_most=True))
    return report


def _own(folder: str) -> int:
    import skipstone as ss

    return int(ss.scan_parquet(folder).plan(WHERE, columns=list(COLUMNS)).to_arrow().num_rows)


def _polars(folder: str) -> int:
    import polars as pl

    frame = pl.scan_parquet(f"{folder}/**/*.parquet")
    frame = frame.filter((pl.col("dest") == "BOS") & (pl.col("dep_delay") > 60))
    return int(frame.select(COLUMNS).collect().to_arrow().num_rows)


def _duckdb(folder: str) -> int:
    import duckdb

    query = f"SELECT {', '.join(COLUMNS)} FROM '{folder}/**/*.parquet' WHERE {WHERE}"
    found: Any = duckdb.sql(query)
    return int(found.to_arrow_table().num_rows)


def _pyarrow(folder: str) -> int:
    import pyarrow.dataset as ds

    matches = (ds.field("dest") == "BOS") & (ds.field("dep_delay") > 60)
    return int(ds.dataset(folder).to_table(columns=list(COLUMNS), filter=matches).num_rows)


ENGINES: Final[Mapping[str, Callable[[str], int]]] = {
    OWN: _own,
    "Polars": _polars,
    "DuckDB": _duckdb,
    "pyarrow.dataset": _pyarrow,
}

if __name__ == "__main__":
    print(ENGINES[sys.argv[1]](sys.argv[2]))
