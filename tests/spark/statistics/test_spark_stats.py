"""Statistics of tables as DataFrames: Spark's workers keep the same files as plans."""

import pytest

import skipstone as ss
from skipstone.spark import with_verdict
from tests.support.spark.session import QUIET
from tests.support.tables.delta_log import Log, Written, delta_schema

pytestmark = pytest.mark.filterwarnings(QUIET)


def test_a_delta_table(tmp_path, spark):
    log = Log(
        tmp_path / "t",
        delta_schema("x BIGINT, t TIMESTAMP, d DECIMAL(12,2), s STRING, p DATE, n STRUCT<v: INT>"),
        ["p"],
        features=("deletionVectors",),
    )
    rows = [
        {
            "x": i,
            "t": f"2024-01-0{i % 9 + 1}T00:00:00.123Z",
            "d": f"{i}.25",
            "s": f"s{i}",
            "n": {"v": i} if i % 7 else None,
        }
        for i in range(40)
    ]
    log.add(
        *(
            Written(
                rows[i : i + 8], {"p": f"2024-02-{i // 8 + 1:02}"}, dead=[0] if i == 8 else None
            )
            for i in range(0, 32, 8)
        )
    )
    log.add(Written(rows[32:], {"p": None}, stats=None))
    table = ss.scan_delta(log.folder)
    frame = table.to_spark_stats(spark)
    assert frame.columns[:3] == ["path", "size", "modificationTime"]
    for where in (
        "x = 7",
        "t > TIMESTAMP '2024-01-05'",
        "d BETWEEN 10 AND 20",
        "s LIKE 's1%'",
        "p = DATE '2024-02-03'",
        "p IS NULL",
        "n.v >= 20",
        "n.v IS NULL",
    ):
        found = {
            r["path"]: r["verdict"]
            for r in with_verdict(frame, where, schema=table.schema)
            .select("path", "verdict")
            .collect()
        }
        assert [found[path] for path in table.files["path"].to_pylist()] == table.plan(
            where, footers=0
        ).verdicts.tolist(), where
