"""`driver`: what `enable` costs the driver over many files: time of plans, and memory.

Spark plans queries over 10,000 real files of 22 columns. A million files are judged by registered
statistics in memory, without Spark's own listing and without files.

`python -m bench.spark.driver WHAT FOLDER FILES` is a fresh process; it prints JSON.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

from bench.first.files import FILES, ROWS, STATUS, make_files
from bench.report.measure import Timing
from bench.report.report import OWN, Options, Report, Requirement, equal

SCANS: Final = 100
MILLION: Final = 1_000_000
NEXT: Final = ("id = {}", "time < TIMESTAMP_NTZ '1970-01-01 00:00:0{}'", "day > DATE '1970-03-0{}'")
MB: Final = 1 << 20
EAGER: Final = {"spark.skipstone.maxPlanningMillis": "600000", "spark.skipstone.minBytes": "0"}


def driver(options: Options) -> Report:
    """Plans over 10,000 files under `enable`, and over a million by registered statistics."""
    files = min(FILES, options.containers)
    million = min(MILLION, options.containers)
    report = Report(f"plans over {files:,} and {million:,} files of 22 columns in Spark", files)
    with tempfile.TemporaryDirectory() as folder:
        make_files(Path(folder), files)
        _add(report, f"{files:,} files", _child("files", folder, files))
    _add(report, f"{million:,} registered files, no Spark", _child("million", "-", million))
    found = {t.name: t.seconds.median for t in report.timings}
    text = f"planning {SCANS} scans of {files:,} files, s"
    scans = found[f"{files:,} files: {SCANS} scans in a query"]
    report.requirements.append(Requirement(text, scans, 2, at_most=True))
    return report


def _add(report: Report, group: str, found: dict[str, Any]) -> None:
    for what, seconds in found["seconds"].items():
        t = Timing(tuple(seconds))
        report.rows.append({"": f"{group}: {what}", "ms": t.best * 1e3, "MB": ""})
        report.time(f"{group}: {what}", t, engine=OWN, group=group)
    for what, nbytes in found["bytes"].items():
        report.rows.append({"": f"{group}: {what}", "ms": "", "MB": nbytes / MB})


def _child(what: str, folder: str, files: int) -> Any:
    command = [sys.executable, "-m", "bench.spark.driver", what, folder, str(files)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])


# The fresh process.


class _Memory:
    """The growth of this process's resident memory, in bytes; nothing where it is unknown."""

    def __init__(self) -> None:
        self._start = self._now("VmRSS") if STATUS.exists() else None
        if self._start is not None:
            Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew

    def _now(self, what: str) -> int:
        lines = STATUS.read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(what))

    def grown(self) -> dict[str, int]:
        if self._start is None:
            return {}
        return {
            "peak of Python's memory": self._now("VmHWM") - self._start,
            "Python's memory afterwards": self._now("VmRSS") - self._start,
        }


def _timed(do: Callable[[], object]) -> float:
    start = time.perf_counter()
    do()
    return time.perf_counter() - start


def _files(folder: str, files: int) -> dict[str, Any]:
    """Time Spark's optimised plans over real files, Skipstone's part among them."""
    from bench.spark.spark_reads import bench_session
    from skipstone.spark import enable, report

    with bench_session() as spark:
        for key, value in EAGER.items():
            spark.conf.set(key, value)
        spark.read.parquet(folder).createOrReplaceTempView("t")

        def plan(query: str) -> None:
            spark.sql(query)._jdf.queryExecution().optimizedPlan()

        def one(condition: str) -> str:
            return f"SELECT * FROM t WHERE {condition}"

        def many(shift: int) -> str:
            each = (one(f"id = {i * ROWS + shift}") for i in range(SCANS))
            return " UNION ALL ".join(each)

        # What Python imports belongs to neither.
        first = sorted(str(p) for p in Path(folder).iterdir())[0]
        spark.read.parquet(first).createOrReplaceTempView("small")
        enable(spark)
        plan("SELECT * FROM small WHERE id = 1")
        memory = _Memory()
        seconds = {"the first plan": [_timed(lambda: plan(one("id = 5")))]}
        for condition in NEXT:
            column = condition.split()[0]
            texts = [one(condition.format(i)) for i in range(1, 5)]
            each = [_timed(partial(plan, text)) for text in texts]
            seconds[f"a plan by {column}, first"] = each[:1]
            seconds[f"a plan by {column}, next"] = each[1:]
        found = report(spark)
        equal("plans that were answered", found.failed + found.late + found.skipped, 0)
        equal("files of id = 5", found.queries[1].scans[0].kept, 1)
        seconds[f"{SCANS} scans in a query"] = [_timed(lambda: plan(many(3)))]
        equal("scans of a query", [s.kept for s in report(spark).queries[-1].scans], [1] * SCANS)
        return {"seconds": seconds, "bytes": memory.grown()}


def _million(_: str, files: int) -> dict[str, Any]:
    """Time a scan's list of files, as Spark's JVM sends it, judged by registered statistics."""
    import numpy as np
    import pyarrow as pa

    import skipstone as ss
    from skipstone.bindings.spark.pruning.registered_listing import RegisteredListing
    from skipstone.bindings.spark.pruning.scan_files import ScanFiles
    from skipstone.spark import register_statistics

    row = np.arange(files, dtype=np.int64)
    names = [f"part-{i:07d}.parquet" for i in range(files)]
    bounds = {f"c{j}.min": row * 10 for j in range(22)}
    bounds |= {f"c{j}.max": row * 10 + 9 for j in range(22)}
    about = {"path": names, "size": np.full(files, 1000), "modification_time": row + 10**12}
    text = "".join(f"file:/lake/t/{n}\0{1000}\0{i + 10**12}\0{0}\0" for i, n in enumerate(names))
    table = pa.table(about | bounds)
    del names, bounds, about
    schema = pa.schema([(f"c{j}", pa.int64()) for j in range(22)])
    memory, every = _Memory(), np.ones(files, np.bool_)
    seconds: dict[str, list[float]] = {}

    def no_footers() -> ScanFiles:
        raise AssertionError("every file is registered")

    start = time.perf_counter()
    registered = register_statistics("/lake/t", table)
    seconds["register_statistics"] = [time.perf_counter() - start]
    start = time.perf_counter()
    listing = RegisteredListing(
        text, "[[]]", schema, pa.schema([]), [registered], case_sensitive=False, footers=no_footers
    )
    seconds["the list of files, once"] = [time.perf_counter() - start]

    def judge(column: int, value: int) -> None:
        predicate = ss.PruningPredicate(f"c{column} = {value}", schema)
        equal("files", int(listing.keep_mask(predicate, every, case_sensitive=False).sum()), 1)

    seconds["a plan by a column, first"] = [_timed(lambda: judge(0, 5))]
    seconds["a plan by a column, next"] = [_timed(partial(judge, 0, v)) for v in (7, 77, 777)]
    return {"seconds": seconds, "bytes": memory.grown()}


def main() -> None:
    """Print the figures of one fresh process."""
    what, folder, files = sys.argv[1:]
    print(json.dumps((_files if what == "files" else _million)(folder, int(files))))


if __name__ == "__main__":
    main()
