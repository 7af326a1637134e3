"""`iceberg`: plan a table of 200,000 files from its manifests, compared with pyiceberg."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import Any, Final

import skipstone as ss
from bench.report.measure import Timing, interleave
from bench.report.report import OWN, Options, Report, Requirement, WrongAnswer
from bench.tables.iceberg_table import PER_BLOCK, PER_MANIFEST, make_table
from skipstone.bindings.tables.iceberg.manifest import forget

FILES: Final = 200_000
PEER: Final = "pyiceberg"
# The conditions. The first two prune no manifest, the last one prunes all but one.
QUESTIONS: Final = {
    "three tests, by bounds": (
        "id >= 50000000 AND id < 50400000 AND kind = 7",
        "id >= 50000000 and id < 50400000 and kind = 7",
    ),
    "a string, by bounds": (
        "name >= 'n0100000' AND name < 'n0100100'",
        "name >= 'n0100000' and name < 'n0100100'",
    ),
    "one day, by partition": (
        "day = DATE '2023-01-05' AND id > 0",
        "day = '2023-01-05' and id > 0",
    ),
}


def iceberg(options: Options) -> Report:
    """Plans of an Iceberg table with nothing in memory: manifests, decoding, verdicts."""
    n = FILES if options.containers >= 10_000_000 else options.containers
    report = Report(
        f"{n:,} files of 8 columns in manifests of {PER_MANIFEST:,}: "
        "paths to read, nothing in memory",
        n,
    )
    try:
        import pyiceberg.table  # noqa: F401
    except ModuleNotFoundError:
        report.leave_out(PEER, "it is not installed, and it must write the table")
        return report
    with tempfile.TemporaryDirectory() as folder:
        metadata = make_table(Path(folder), n)
        for name, (text, theirs) in QUESTIONS.items():
            runs = {OWN: partial(own, metadata, text), PEER: partial(peer, metadata, theirs)}
            found, expected = runs[OWN](), runs[PEER]()
            if sorted(found) != sorted(expected):
                raise WrongAnswer(
                    f"{name}: Skipstone keeps {len(found)} files, pyiceberg {len(expected)}"
                )
            timings = interleave(runs, options.rounds or (7 if options.full else 3))
            for engine, t in timings.items():
                report.time(f"{engine}, {name}", t, own=timings[OWN], engine=engine, group=name)
                report.rows.append(_row(engine, name, t, timings[OWN], n, len(found)))
            report.requirements.append(
                Requirement(
                    f"Iceberg, {name}: speed-up over pyiceberg's plan_files",
                    timings[PEER].times(timings[OWN]),
                    5,
                )
            )
    report.notes.append(
        f"Manifests are deflated, in blocks of {PER_BLOCK} entries as Java's writers make them. "
        "Both contestants read files from the page cache."
    )
    return report


def own(metadata: str, text: str) -> tuple[str, ...]:
    """Return the files that Skipstone keeps, without manifests of earlier runs in memory."""
    forget()
    return ss.scan_iceberg(metadata).plan(text).files


def peer(metadata: str, text: str) -> tuple[str, ...]:
    """Return the files that pyiceberg keeps."""
    from pyiceberg.table import StaticTable

    return tuple(
        task.file.file_path
        for task in StaticTable.from_metadata(metadata).scan(row_filter=text).plan_files()
    )


def _row(engine: str, name: str, t: Timing, own: Timing, n: int, kept: int) -> dict[str, Any]:
    return {
        "": f"{engine}, {name}",
        "ms": t.median * 1e3,
        "best ms": t.best * 1e3,
        "million files/s": n / t.median / 1e6,
        "times Skipstone": t.times(own),
        "kept": kept,
    }
