"""`requests`: the requests to a store for the rows of one key among 10,000 objects.

Each contestant runs in a fresh process, on an S3 server of this machine that writes down what it is
asked, and answers 10 ms later. The server runs on the same cores, so that times say less than
counts.

`python -m bench.tables.requests NAME KEY` is such a process.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.report.measure import Timing
from bench.report.report import OWN, Options, Report, Requirement, WrongAnswer
from bench.rows.data import FOLDER, made
from bench.slow_s3 import BUCKET, slow_store
from bench.tables.lake_data import as_delta

FILES, ROWS = 10_000, 50
TABLE: Final = f"s3://{BUCKET}/data"
SAVED: Final = f"s3://{BUCKET}/saved"
KEYS: Final = 1_000  # a listing has so many at most
FEW: Final = 20  # requests beside those of the listing and the footers
PARQUET, DELTA = "Parquet", "Delta"
SNAPSHOT: Final = f"{OWN}, saved statistics, {PARQUET}"


def requests(options: Options) -> Report:
    """Requests to S3 for one key's rows among 10,000 objects, in a fresh process."""
    files = min(FILES, max(options.containers // ROWS, 100))
    report = Report(f"{files:,} objects of {ROWS} rows: the rows of one key, in fresh processes")
    try:
        source = made(FOLDER / f"requests-{files}", partial(_write, files)) / "data"
    except ImportError as e:
        report.leave_out("all engines", f"{e.name} is not installed, and it makes the tables")
        return report
    key = files // 2 * ROWS + 3
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "requests"
        log.touch()
        with slow_store(Path(folder), [source], log=log):
            _process("save", key).check_returncode()
            found = {name: _measure(name, key, log, report) for name in CONTESTANTS}
    for name, one in found.items():
        engine, _, group = name.rpartition(", ")
        own = found[f"{OWN}, {group}"]
        if one is not None and own is not None:
            whose = OWN if engine.startswith(OWN) else engine
            report.time(name, one.seconds, own=own.seconds, engine=whose, group=group)
    listing = -(-files // KEYS)
    for name, most in (
        (f"{OWN}, {PARQUET}", 2 * files + listing + FEW),
        (SNAPSHOT, listing + FEW),
        (f"{OWN}, {DELTA}", FEW),
    ):
        one = found[name]
        if one is None:
            raise WrongAnswer(f"{name} does not answer: {report.absent[-1].why}")
        report.requirements.append(
            Requirement(f"{name}: requests", one.requests, most, at_most=True)
        )
    return report


@dataclass(frozen=True, slots=True)
class Found:
    """The requests of one process, and its time from start to end."""

    requests: int
    seconds: Timing


def _measure(name: str, key: int, log: Path, report: Report) -> Found | None:
    """Run a contestant; None if it fails, such as an engine that is not installed."""
    before, start = log.stat().st_size, time.perf_counter()
    done = _process(name, key)
    seconds = time.perf_counter() - start
    if done.returncode:
        report.leave_out(name.split(",")[0], done.stderr.strip().splitlines()[-1][:100], name)
        return None
    if done.stdout.strip() != f"{key * 7919 % 10_007}":
        raise WrongAnswer(f"{name} answers {done.stdout!r} for the key {key}")
    asked = log.read_bytes()[before:].decode().splitlines()
    kinds = Counter("list" if "list-type" in line else line.split()[0] for line in asked)
    report.rows.append(
        {
            "": name,
            "requests": len(asked),
            "list": kinds["list"],
            "HEAD": kinds["HEAD"],
            "GET": kinds["GET"],
            "s": seconds,
        }
    )
    return Found(len(asked), Timing((seconds,)))


def _process(name: str, key: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", __name__, name, str(key)]
    return subprocess.run(command, capture_output=True, text=True)


def _write(files: int, folder: Path) -> None:
    (folder / "data").mkdir()
    for i in range(files):
        ids = np.arange(i * ROWS, (i + 1) * ROWS)
        prices = ids * 7919 % 10_007
        rows = pa.table({"id": ids, "price": prices, "name": [f"k{p}" for p in prices]})
        pq.write_table(rows, folder / "data" / f"part-{i:06}.parquet")
    as_delta(folder / "data")


def _own(scan: str, key: int, **options: Any) -> Any:
    import skipstone as ss

    plan = getattr(ss, scan)(TABLE, **options).plan(f"id = {key}", columns=["price"])
    return plan.to_arrow().column("price")[0].as_py()


def _save(key: int) -> None:
    import skipstone as ss

    ss.scan_parquet(TABLE, ignore_table_format=True).save_stats(SAVED)


def _polars(scan: str, where: str, key: int) -> Any:
    import polars as pl

    found = getattr(pl, scan)(where).filter(pl.col("id") == key).select("price").collect()
    return found.item()


def _dataset(key: int) -> Any:
    import pyarrow.dataset as ds

    data = ds.dataset(TABLE, format="parquet")
    return data.to_table(filter=ds.field("id") == key, columns=["price"]).column(0)[0].as_py()


def _deltalake(key: int) -> Any:
    import pyarrow.dataset as ds
    from deltalake import DeltaTable

    data = DeltaTable(TABLE).to_pyarrow_dataset()
    return data.to_table(filter=ds.field("id") == key, columns=["price"]).column(0)[0].as_py()


CONTESTANTS: Final[Mapping[str, Callable[[int], Any]]] = {
    f"{OWN}, {PARQUET}": partial(_own, "scan_parquet", ignore_table_format=True),
    SNAPSHOT: partial(_own, "scan_parquet", ignore_table_format=True, stats=SAVED),
    f"Polars, {PARQUET}": partial(_polars, "scan_parquet", f"{TABLE}/*.parquet"),
    f"pyarrow.dataset, {PARQUET}": _dataset,
    f"{OWN}, {DELTA}": partial(_own, "scan_delta"),
    f"Polars, {DELTA}": partial(_polars, "scan_delta", TABLE),
    f"deltalake's dataset, {DELTA}": _deltalake,
}

if __name__ == "__main__":
    run = {"save": _save, **CONTESTANTS}[sys.argv[1]]
    answer = run(int(sys.argv[2]))
    if answer is not None:
        print(answer)
