"""Shards on a cluster that loses a worker while it judges, and runs tasks twice while it writes.

Each container counts once, and none is lost.
"""

import os
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import skipstone as ss
from skipstone.bindings.shards.shards import Shards
from tests.support.effort import LONG
from tests.support.spark.cluster import WORKER, cluster, lose  # noqa: F401
from tests.support.statistics.shards import clustered

SCHEMA = pa.schema([("x", pa.int64())])
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.2",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.minTaskRuntime": "0ms",
    "spark.task.maxFailures": "8",
}


class SlowShards(Shards):
    """Shards that take a while to read, and leave a mark of their reader."""

    def statistics(self, i):
        Path(f"{self._folder.path}/read.{i}.{os.environ.get(WORKER)}.{time.time_ns()}").touch()
        time.sleep(0.15)
        return super().statistics(i)

    def __reduce__(self):
        return SlowShards, (self._folder, self._manifest)


def marks(folder, kind):
    return [name for name in os.listdir(folder) if name.startswith(f"{kind}.")]


def job(spark, folders, containers, texts, *, groups):
    """Run all jobs of the cluster from one driver."""
    return {
        "written": write_twice(spark, folders[0], containers),
        "judged": judge_and_lose(spark, folders[1], texts, groups),
    }


def write_twice(spark, folder, containers):
    """Fail or hang the first attempt of two tasks after it wrote its shards."""
    from pyspark import TaskContext

    from skipstone.spark import write_shards

    def odd(batches):
        context = TaskContext.get()
        yield from batches
        if context.attemptNumber() == 0 and context.partitionId() in (1, 2):
            Path(f"{folder}/again.{context.partitionId()}.{time.time_ns()}").touch()
            if context.partitionId() == 2:
                raise RuntimeError("the first attempt fails")
            time.sleep(60)  # until another attempt is done and Spark kills this one

    frame = spark.range(0, containers, 1, 4).selectExpr(
        "id", "id + 1 AS above", "concat('part-', id) AS path"
    )
    stats = frame.mapInArrow(odd, frame.schema).toDF("x.min", "x.max", "path")
    shards = write_shards(stats, folder, SCHEMA, rows=100)
    files = [f for f in os.listdir(folder) if f.endswith((".stats", ".about"))]
    x = [
        v
        for i in range(shards.num_shards)
        for v in shards.statistics(i).get("x", "min").to_pylist()
    ]
    paths = [v for i in range(shards.num_shards) for v in shards.about(i)["path"].to_pylist()]
    return {"x": x, "paths": paths, "files": len(files), "shards": shards.num_shards}


def judge_and_lose(spark, folder, texts, groups):
    """Judge shards, and kill the first worker that reads one."""
    import threading

    from skipstone.spark import prune_shards

    opened = Shards.open(folder)
    slow = SlowShards(opened._folder, opened._manifest)

    def kill():
        end = time.monotonic() + 60
        while not (read := marks(folder, "read")) and time.monotonic() < end:
            time.sleep(0.02)
        lose(groups[int(read[0].split(".")[2])])

    killer = threading.Thread(target=kill)
    killer.start()
    found = [prune_shards(spark, slow, text, where="executors", tasks=3) for text in texts]
    killer.join()
    rows = prune_shards(spark, opened, texts[0], where="executors", returns="frame").collect()
    return {
        "verdicts": [f.verdicts.tolist() for f in found],
        "unreadable": [list(f.unreadable) for f in found],
        "paths": sorted(r.path for r in rows),
    }


CONTAINERS, TEXTS, MISSING = (
    1000,
    ("f < 0.5", "f BETWEEN 0.2 AND 0.21 OR x = 77") if LONG else ("f < 0.5",),
    5,
)


@pytest.fixture(scope="module")
def found(cluster, tmp_path_factory):  # noqa: F811
    """Return the cluster's answers, and the folders of the shards that it wrote and judged."""
    written, judged = (tmp_path_factory.mktemp(name) for name in ("written", "judged"))
    stats = clustered(CONTAINERS)
    stats.save_shards(
        judged, rows=50, about=pa.table({"path": [f"part-{i}" for i in range(CONTAINERS)]})
    )
    (judged / Shards.open(judged).shards[MISSING].file).unlink()
    answers = cluster.run(
        "tests.spark.shards.test_spark_cluster:job",
        [str(written), str(judged)],
        CONTAINERS,
        TEXTS,
        config=SPECULATION,
    )
    return answers, written, judged, stats


def test_tasks_that_run_twice_write_once(found):
    answer, folder = found[0]["written"], found[1]
    assert answer["x"] == list(range(CONTAINERS)) and answer["paths"] == [
        f"part-{i}" for i in range(CONTAINERS)
    ]
    assert (
        answer["shards"] == 12 and answer["files"] == 2 * 12 + 1
    )  # the output of other attempts was removed
    assert {name.split(".")[1] for name in marks(folder, "again")} == {"1", "2"}


def test_a_worker_that_is_lost_loses_no_container(found, cluster):  # noqa: F811
    answer, folder, stats = found[0]["judged"], found[2], found[3]
    assert [w.poll() is None for w in cluster.workers].count(False) == 1  # killed
    read = [name.split(".")[1] for name in marks(folder, "read")]
    assert len(set(read)) == 20 and len(read) > 20 * len(
        TEXTS
    )  # some twice, because their task was lost
    for i, text in enumerate(TEXTS):
        expected = ss.PruningPredicate(text, stats.schema).evaluate(stats)
        expected[MISSING * 50 : MISSING * 50 + 50] = 1
        assert answer["verdicts"][i] == expected.tolist() and answer["unreadable"][i] == [
            Shards.open(folder).shards[MISSING].file
        ]
        if not i:
            assert answer["paths"] == sorted(f"part-{i}" for i in np.flatnonzero(expected))
