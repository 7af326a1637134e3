"""The part of `first` about files: fresh processes over many small files, memory, small tables.

`python -m bench.first.files WHAT FOLDER` is such a process; it prints JSON.
"""

from __future__ import annotations

import ctypes
import gc
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from bench.report.measure import Timing, interleave
from bench.report.report import OWN, Options, Report, Requirement, equal

FILES, ROWS, FOLDERS = 10_000, 100, 100
STATUS: Final = Path("/proc/self/status")  # only Linux has it
COLD: Final = ("scan_parquet", "scan_hive", "Polars", "DuckDB", "pyarrow.dataset")
COLUMNS: Final = ["id", "number_0"]
WHERE: Final = "number_0 > 1000000"  # no row
SMALL: Final = {1: 1.0, 64: 3.5}  # files of small tables -> milliseconds that they may take
WARM_ROUNDS: Final = 30


def first_files(options: Options) -> Report:
    """10,000 small files in fresh processes, the memory of their footers, and small tables."""
    files = min(FILES, options.containers)
    report = Report(f"{files:,} Parquet files of {ROWS} rows and 22 columns", files)
    with tempfile.TemporaryDirectory() as folder:
        flat, hive = Path(folder) / "flat", Path(folder) / "hive"
        make_files(flat, files, hive)
        _cold(report, flat, hive, files, options.rounds or 5)
        if STATUS.exists():
            _memory(report, flat, files)
        for number in SMALL:
            _small(report, sorted(map(str, flat.iterdir()))[:number])
    return report


def make_files(flat: Path, files: int, hive: Path | None = None) -> None:
    """Write small files of 22 columns into a folder, and the same in partitions of another one."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    r = np.random.default_rng(1)
    flat.mkdir(exist_ok=True)
    for i in range(files):
        table = pa.table(
            {
                "id": np.arange(i * ROWS, (i + 1) * ROWS),
                "time": pa.array(np.arange(ROWS) + i * 1_000_000, pa.timestamp("us")),
                **{f"number_{j}": r.integers(0, 1000, ROWS) for j in range(8)},
                **{f"real_{j}": r.random(ROWS) for j in range(6)},
                **{
                    f"text_{j}": [f"{j}-{v:08d}" for v in r.integers(0, 999, ROWS)] for j in "abcde"
                },
                "day": pa.array(np.full(ROWS, i // 100, np.int32), pa.date32()),
            }
        )
        pq.write_table(table, flat / f"{i:05d}.parquet")
        if hive is not None:
            inner = hive / f"part={i % FOLDERS}"
            inner.mkdir(parents=True, exist_ok=True)
            pq.write_table(table, inner / f"{i:05d}.parquet")


def _cold(report: Report, flat: Path, hive: Path, files: int, rounds: int) -> None:
    """Time fresh processes that return the row of one id, all imports included."""
    wanted = files // 2 * ROWS + 3
    seconds: dict[str, list[float]] = {what: [] for what in COLD}
    for i in range(rounds + 1):
        for what in COLD:
            start = time.perf_counter()
            found = _child(what, hive if what == "scan_hive" else flat, wanted)
            if i:  # the first round fills the page cache, and keeps compiled loops on disk
                seconds[what].append(time.perf_counter() - start)
            equal(what, found, 1)
    timings = {what: Timing(tuple(s)) for what, s in seconds.items()}
    group = f"a fresh process, one id in {files:,} files"
    for what, t in timings.items():
        engine = OWN if what.startswith("scan") else what
        report.rows.append({"": f"{group}: {what}", "ms": t.best * 1e3})
        report.time(what, t, own=timings["scan_parquet"], engine=engine, group=group)
    for what in ("scan_parquet", "scan_hive"):
        text = f"{what} of {files:,} files in a fresh process: time relative to Polars"
        ratio = timings[what].best / timings["Polars"].best
        report.requirements.append(Requirement(text, ratio, 1, at_most=True))


def _memory(report: Report, flat: Path, files: int) -> None:
    """Measure the resident memory of footers in a fresh process."""
    found: dict[str, float] = _child("memory", flat, 0)
    for name, kib in found.items():
        report.rows.append({"": f"memory of footers: {name}", "KiB a file": kib / files})
    for name in ("peak, one column", "peak, all columns"):
        text = f"memory of {files:,} footers, KiB a file: {name}"
        report.requirements.append(Requirement(text, found[name] / files, 4, at_most=True))


def _small(report: Report, paths: list[str]) -> None:
    """Time `scan` and `plan` of a new table in a warm process, and Polars' whole answer."""
    import polars as pl

    import skipstone as ss
    from skipstone.kernels.decode import footer_layout

    footer_layout.load()

    def own() -> object:
        return ss.scan_parquet(paths).plan(WHERE, columns=COLUMNS)

    def polars() -> object:
        frame = pl.scan_parquet(paths).filter(pl.col("number_0") > 1_000_000)
        return frame.select(COLUMNS).collect()

    timings = interleave({OWN: own, "Polars": polars}, WARM_ROUNDS)
    group = f"a new table, files: {len(paths)}"
    for engine, t in timings.items():
        report.rows.append({"": f"{group}: {engine}", "ms": t.best * 1e3})
        report.time(f"{engine}, {group}", t, own=timings[OWN], engine=engine, group=group)
    if (bound := SMALL.get(len(paths))) is not None:
        text = f"scan and plan of a new table, ms, files: {len(paths)}"
        report.requirements.append(Requirement(text, timings[OWN].best * 1e3, bound, at_most=True))


# The fresh process.


def _child(what: str, folder: Path, wanted: int) -> Any:
    command = [sys.executable, "-m", "bench.first.files", what, str(folder), str(wanted)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def _count(what: str, folder: str, wanted: int) -> int:
    """Return the number of rows with an id, as one engine finds them."""
    if what == "Polars":
        import polars as pl

        return len(pl.scan_parquet(folder).filter(pl.col("id") == wanted).collect())
    if what == "DuckDB":
        import duckdb

        query = f"SELECT * FROM '{folder}/*.parquet' WHERE id = {wanted}"
        return len(duckdb.connect().execute(query).fetchall())
    if what == "pyarrow.dataset":
        import pyarrow.dataset as ds

        return int(ds.dataset(folder).to_table(filter=ds.field("id") == wanted).num_rows)
    import skipstone as ss

    scan: Callable[..., Any] = ss.scan_hive if what == "scan_hive" else ss.scan_parquet
    return int(scan(folder).plan(f"id = {wanted}").to_arrow().num_rows)


def _kib() -> Iterator[int]:
    """Yield the peak of the resident memory, and the present one."""
    for line in STATUS.read_text().splitlines():
        if line.startswith(("VmHWM", "VmRSS")):
            yield int(line.split()[1])


def _memory_of(folder: str) -> dict[str, int]:
    """Return KiB of resident memory over that of a process that has planned a small table.

    Loops are compiled before, since they belong to the process.
    """
    import pyarrow as pa

    import skipstone as ss
    from skipstone.kernels.decode import footer_layout

    footer_layout.load()

    def plan_all(table: Any) -> None:
        for name in table.schema.names:
            table.plan(f"{name} IS NOT NULL")

    plan_all(ss.scan_parquet(next(Path(folder).iterdir())))  # it imports what it needs
    gc.collect()
    _, before = _kib()
    table = ss.scan_parquet(folder)
    table.plan("id = 3")
    out = dict(zip(("peak, one column", "kept, one column"), _kib(), strict=True))
    plan_all(table)
    out |= zip(("peak, all columns", "kept, all columns"), _kib(), strict=True)
    del table
    gc.collect()
    pa.default_memory_pool().release_unused()
    out["after the table is gone"] = list(_kib())[1]
    # What the C library holds in case it is asked again.
    ctypes.CDLL(None).malloc_trim(0)
    out["after malloc_trim"] = list(_kib())[1]
    return {name: kib - before for name, kib in out.items()}


def main() -> None:
    """Print the answer of one fresh process."""
    what, folder, wanted = sys.argv[1:]
    print(json.dumps(_memory_of(folder) if what == "memory" else _count(what, folder, int(wanted))))


if __name__ == "__main__":
    main()
