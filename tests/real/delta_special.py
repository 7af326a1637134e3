"""Delta tables that need more than statements: compacted logs, old versions, coordinators."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import skipstone as ss
from tests.real.delta_tables import DELETES, PARTED, PLAIN, made, of
from tests.real.made import PARTS, Made, Wanted, inserts, run

COMPACTED = "log compaction"
OLD = "time travel"
CLONED = "shallow clone"
COORDINATED = "coordinated commits"
CATALOG = "catalog-managed commits"


def at(path: Path, statements: list[str]) -> list[str]:
    return [s.replace("{t}", f"delta.`{path}`") for s in statements]


def by_spark(spark: Any, folder: Path, wanted: Wanted) -> Iterator[Made]:
    if wanted("Spark", COMPACTED):
        path = folder / "delta-compacted"
        run(spark, at(path, [PLAIN, *inserts("{t}", range(PARTS - 1)), *DELETES[:2]]))
        compact(spark, path, 2, 6)
        run(spark, at(path, inserts("{t}", range(PARTS - 1, PARTS))))
        yield made(spark, "Spark", COMPACTED, path)
    if wanted("Spark", OLD):
        path = folder / "delta-old"
        table = f"{PARTED} {of(enableDeletionVectors='true', checkpointInterval='3')}"
        run(spark, at(path, [table, *inserts("{t}"), *DELETES]))
        for version in (4, 8):
            yield made(spark, "Spark", f"{OLD}, version {version}", path, version=version)
    if wanted("Spark", CLONED):
        source, path = folder / "delta-source", folder / "delta-cloned"
        run(spark, at(source, [PARTED, *inserts("{t}")]))
        run(spark, [f"CREATE TABLE delta.`{path}` SHALLOW CLONE delta.`{source}`"])
        run(spark, at(path, DELETES))
        yield made(spark, "Spark", CLONED, path)
    if wanted("Spark", COORDINATED):
        yield coordinated(spark, folder / "delta-coordinated")
    if wanted("Spark", CATALOG):
        path = folder / "delta-catalog"
        run(spark, at(path, [PLAIN, *inserts("{t}")]))
        log = path / "_delta_log" / f"{PARTS + 1:020}.json"
        needs = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["catalogManaged"],
                 "writerFeatures": ["catalogManaged", "inCommitTimestamp"]}  # fmt: skip
        log.write_text(json.dumps({"protocol": needs}) + "\n")
        yield refused(CATALOG, path, "catalogManaged")


def refused(feature: str, path: Path, words: str) -> Made:
    return Made("delta", "Spark", feature, lambda: ss.scan_delta(str(path)), None, refused=words)


def compact(spark: Any, path: Path, first: int, last: int) -> None:
    """Write one file for the commits of some versions, by Delta's kernel."""
    jvm = spark._jvm
    folders = [
        jvm.io.delta.kernel.internal.fs.Path(f"file:{p}") for p in (path, path / "_delta_log")
    ]
    hadoop = spark._jsparkSession.sessionState().newHadoopConf()
    engine = jvm.io.delta.kernel.defaults.engine.DefaultEngine.create(hadoop)
    writer = jvm.io.delta.kernel.internal.compaction.LogCompactionWriter
    writer(*folders, first, last, 0).writeLogCompactionFile(engine)
    assert list((path / "_delta_log").glob("*.compacted.json"))


def coordinated(spark: Any, path: Path) -> Made:
    """Make a table whose last commits only its coordinator knows.

    Delta's coordinator in memory needs libraries of AWS, so the log is changed to what it leaves.
    """
    run(spark, at(path, [PLAIN, *inserts("{t}")]))
    log = path / "_delta_log"
    first = log / f"{0:020}.json"
    actions = [json.loads(line) for line in first.read_text().splitlines()]
    for action in actions:
        if "metaData" in action:
            action["metaData"]["configuration"] |= {
                "delta.coordinatedCommits.commitCoordinator-preview": "in-memory",
                "delta.coordinatedCommits.commitCoordinatorConf-preview": "{}",
            }
    first.write_text("".join(json.dumps(action) + "\n" for action in actions))
    (log / "_commits").mkdir()
    for version in (PARTS - 1, PARTS):
        name = f"{version:020}"
        (log / f"{name}.json").rename(log / "_commits" / f"{name}.{uuid.uuid4()}.json")
    for kept in log.glob("*.crc"):
        kept.unlink()
    return refused(COORDINATED, path, "coordinated")


MAKERS = (by_spark,)
