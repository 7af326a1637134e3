"""Random rows, one file per container, and random conditions: no matching row is lost.

Spark decides which rows match.
"""

import os
import random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from skipstone.spark import prune, pruned
from tests.support.effort import LONG
from tests.support.predicates.inside import SESSIONS
from tests.support.predicates.judges import Tally, trial
from tests.support.rows.neighbours import FIELDS
from tests.support.spark.judge import TYPES, Question, _asked
from tests.support.spark.session import QUIET

pytestmark = pytest.mark.filterwarnings(QUIET)
PREDICATES = 200 if LONG else 12


@pytest.mark.parametrize("seed", range(8 if LONG else 1))
def test_random(seed, spark, tmp_path):
    t, r = trial(seed, 25, fields=FIELDS, sessions=SESSIONS), random.Random(seed)
    whole = pa.Table.from_batches([t.batch]).append_column(
        "row", pa.array(range(len(t.container)), pa.int32())
    )
    for k in range(t.containers):
        pq.write_table(
            whole.filter(pa.array(t.container == k)),
            tmp_path / f"{k}.parquet",
            write_statistics=r.random() < 0.9,
        )
        os.utime(tmp_path / f"{k}.parquet", (1_600_000_000, 1_600_000_000))
    spark.conf.set("spark.sql.ansi.enabled", str(t.session.ansi).lower())
    spark.conf.set("spark.sql.session.timeZone", t.session.timezone)
    try:
        schema = ", ".join(f"{name} {kind}" for name, kind in TYPES.items()) + ", row int"
        spark.createDataFrame(whole, schema).createOrReplaceTempView("rows")
        frame, left = spark.read.schema(schema).parquet(str(tmp_path)), 0
        for q, answer in _asked(spark, [Question(t, False) for _ in range(PREDICATES)], Tally(), t):
            found = np.asarray(
                answer.combine_chunks().fill_null(False).to_numpy(zero_copy_only=False), np.bool_
            )
            small = prune(frame.where(q.predicate.sql))
            kept = {int(os.path.basename(p).removesuffix(".parquet")) for p in small.inputFiles()}
            assert set(t.container[found].tolist()) <= kept, (
                q.predicate.sql,
                t.session,
                pruned(small),
            )
            left += t.containers - len(kept)
        assert left > PREDICATES * t.containers * 0.1
    finally:
        spark.conf.set("spark.sql.ansi.enabled", "true")
        spark.conf.set("spark.sql.session.timeZone", "UTC")
        spark.catalog.dropTempView("rows")
