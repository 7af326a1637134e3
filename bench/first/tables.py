"""The part of `first` about tables: the first plan of a process, for Delta and Iceberg.

`python -m bench.first.tables WHAT TABLE FIRST STOP` is such a process; it prints how many files may
hold an id in [FIRST, STOP).
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.rows.engines import OWN

if TYPE_CHECKING:
    from bench.report.report import Options, Report

SIZES: Final = (1_000, 100_000, 1_000_000)
PYICEBERG_MOST: Final = 100_000  # with --full, all sizes: it takes a minute for a million files
WANTED: Final = 3  # files that may hold one of the ids
IDS: Final = {"Delta": 1000, "Iceberg": 500}  # ids in each file, ascending
WRITERS: Final = {"Delta": "deltalake", "Iceberg": "pyiceberg"}


def first_tables(options: Options) -> Report:
    """The first plan of a process, for Delta and Iceberg tables of 1,000 files and more."""
    from bench.report.report import Report

    report = Report("the first plan of a process, from its start to its end; ms")
    for kind, peer in WRITERS.items():
        try:
            __import__(peer)
        except ImportError:
            report.leave_out(peer, "not installed", kind)
            continue
        for n in SIZES:
            most = SIZES[-1] if kind == "Delta" or options.full else PYICEBERG_MOST
            if n <= min(most, options.containers):
                with tempfile.TemporaryDirectory() as folder:
                    _measure(report, kind, _write(kind, Path(folder) / "t", n), n, options.rounds)
    return report


def _write(kind: str, folder: Path, n: int) -> str:
    """Write a table of n files that do not exist, and return what opens it."""
    if kind == "Delta":
        from bench.files.delta_log import write_log

        write_log(folder, n, parsed=True)
        return str(folder)
    from bench.tables.iceberg_table import make_table

    return make_table(folder, n)


def _measure(report: Report, kind: str, table: str, n: int, rounds: int | None) -> None:
    from bench.report.measure import Timing
    from bench.report.report import Requirement, equal

    first = n // 2 * IDS[kind] + 5
    asked = (table, str(first), str(first + (WANTED - 1) * IDS[kind]))
    seconds: dict[str, list[float]] = {OWN: [], WRITERS[kind]: []}
    for i in range(1 + (rounds or (7 if n < SIZES[-1] else 3))):
        found = {}
        for what, own in seconds.items():
            start = time.perf_counter()
            done = subprocess.run(
                [sys.executable, "-m", __name__, f"{kind}, {what}", *asked],
                check=True, capture_output=True, text=True,
            )  # fmt: skip
            if i:  # the first round fills caches
                own.append(time.perf_counter() - start)
            found[what] = int(done.stdout)
        equal(f"{kind}, {n:,} files", list(found.values()), [WANTED, WANTED])
    timings = {what: Timing(tuple(s)) for what, s in seconds.items()}
    group = f"{kind}, {n:,} files"
    for what, t in timings.items():
        report.rows.append({"": f"{group}: {what}", "ms": t.best * 1e3})
        report.time(f"{group}: {what}", t, own=timings[OWN], engine=what, group=group)
    text = f"the first plan of a process, {group}: time relative to {WRITERS[kind]}"
    ratio = timings[OWN].best / timings[WRITERS[kind]].best
    report.requirements.append(Requirement(text, ratio, 1, at_most=True))


def _delta(table: str, first: int, stop: int) -> int:
    import skipstone as ss

    return len(ss.scan_delta(table).plan(f"id >= {first} AND id < {stop}").files)


def _deltalake(table: str, first: int, stop: int) -> int:
    import pyarrow as pa
    import pyarrow.compute as pc
    from deltalake import DeltaTable

    actions = pa.table(DeltaTable(table).get_add_actions(flatten=True))
    kept = (pc.field("max.id") >= first) & (pc.field("min.id") < stop)
    return len(actions.filter(kept).column("path").to_pylist())


def _iceberg(table: str, first: int, stop: int) -> int:
    import skipstone as ss

    return len(ss.scan_iceberg(table).plan(f"id >= {first} AND id < {stop}").files)


def _pyiceberg(table: str, first: int, stop: int) -> int:
    from pyiceberg.table import StaticTable

    scan = StaticTable.from_metadata(table).scan(row_filter=f"id >= {first} and id < {stop}")
    return len([task.file.file_path for task in scan.plan_files()])


ENGINES: Final[Mapping[str, Callable[[str, int, int], int]]] = {
    f"Delta, {OWN}": _delta,
    "Delta, deltalake": _deltalake,
    f"Iceberg, {OWN}": _iceberg,
    "Iceberg, pyiceberg": _pyiceberg,
}

if __name__ == "__main__":
    print(ENGINES[sys.argv[1]](sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
