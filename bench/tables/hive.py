"""`hive`: plan a table of many small files from a snapshot, from footers, and by pyarrow."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

import skipstone as ss
from bench.report.measure import YARDSTICK, Run, interleave, yardstick
from bench.report.report import OWN, Options, Report, Requirement, equal

FILES, FOLDERS, ROWS = 20_000, 200, 10
TYPES: Final = {"day": pa.int32()}
SNAPSHOT: Final = "scan_hive with a snapshot"
FOOTERS: Final = "scan_hive, footers"
PEER: Final = "dataset, get_fragments(filter)"


def hive(options: Options) -> Report:
    """A table of 20,000 files in 200 folders: finding one file among all, and in one folder."""
    folders = min(FOLDERS, max(options.containers // 100, 2))
    files = min(FILES, options.containers) // folders * folders
    report = Report(f"{files:,} Parquet files of {ROWS} rows in {folders} folders", files)
    with tempfile.TemporaryDirectory() as folder:
        root = _make(Path(folder) / "t", files, folders)
        stats = str(Path(folder) / "stats")
        ss.scan_parquet(root).save_stats(stats)
        report.notes.append(
            f"the snapshot takes {os.path.getsize(stats) / files:,.0f} bytes a file"
        )
        day, file = folders // 2, files // 2
        one = f"id = {file * ROWS + 3}"
        times = {}
        for group, where, arrow in (
            ("in all folders", one, ds.field("id") == file * ROWS + 3),
            (
                "in one folder",
                f"day = {day} AND {one}",
                (ds.field("day") == day) & (ds.field("id") == file * ROWS + 3),
            ),
        ):
            times[group] = _compare(
                group, _contestants(root, stats, where, arrow), options.rounds or 3, report
            )
    whole = times["in all folders"]
    report.requirements.append(
        Requirement(
            "planning from footers, time relative to planning from a snapshot, in all folders",
            whole[FOOTERS],
            2,
        )
    )
    report.requirements.append(
        Requirement(
            "pyarrow's dataset, time relative to planning from a snapshot, in all folders",
            whole[PEER],
            3,
        )
    )
    return report


def _make(root: Path, files: int, folders: int) -> str:
    r = np.random.default_rng(5)
    for f in range(files):
        path = root / f"day={f * folders // files}" / f"{f:06}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        ids = np.arange(f * ROWS, (f + 1) * ROWS)
        words = [f"word {i}" for i in r.integers(0, 1000, ROWS)]
        pq.write_table(
            pa.table(
                {
                    "id": ids,
                    "price": r.random(ROWS),
                    "amount": r.integers(0, 100, ROWS),
                    "name": words,
                }
            ),
            path,
        )
        # Snapshots leave out files that changed recently.
        os.utime(path, (1_600_000_000, 1_600_000_000))
    return str(root)


def _contestants(
    root: str, stats: str, where: str, arrow: Any
) -> dict[str, Callable[[], list[str]]]:
    """Return each contestant's function that finds the kept paths with nothing in memory."""
    return {
        SNAPSHOT: lambda: list(
            ss.scan_hive(root, partition_schema=TYPES, stats=stats).plan(where).files
        ),
        FOOTERS: lambda: list(
            ss.scan_hive(root, partition_schema=TYPES, stats=False).plan(where).files
        ),
        "scan_parquet with a snapshot": lambda: list(
            ss.scan_parquet(root, stats=stats).plan(where).files
        ),
        PEER: lambda: _fragments(root, arrow),
    }


def _fragments(root: str, condition: Any) -> list[str]:
    data = ds.dataset(root, partitioning="hive")
    return [
        f.path
        for f in data.get_fragments(condition)
        if f.split_by_row_group(condition, data.schema)
    ]


def _compare(
    group: str, ways: dict[str, Callable[[], list[str]]], rounds: int, report: Report
) -> dict[str, float]:
    """Compare and time the contestants; return their times relative to the snapshot's."""
    expected = [os.path.basename(p) for p in ways[FOOTERS]()]
    for name, run in ways.items():
        equal(name, [os.path.basename(p) for p in run()], expected)
    runs: dict[str, Run] = {YARDSTICK: yardstick, **ways}
    timings = interleave(runs, rounds)
    own = timings[SNAPSHOT]
    for name in ways:
        t = timings[name]
        engine = "pyarrow" if name == PEER else OWN
        report.time(
            f"{group}: {name}",
            t,
            (YARDSTICK, timings[YARDSTICK]),
            own=own,
            engine=engine,
            group=group,
        )
        report.rows.append(
            {
                "": f"{group}: {engine}, {name}",
                "ms": t.median * 1e3,
                "best ms": t.best * 1e3,
                "times the snapshot": t.times(own),
            }
        )
    return {name: timings[name].times(own) for name in ways}
