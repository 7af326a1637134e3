"""Run SQL in a Spark session that keeps its tables in Hive's metastore, in a process of its own.

`python -m tests.support.tables.hive_statements THRIFT_URI WAREHOUSE` reads a JSON object from
standard input, `{"statements": [...], "queries": {name: sql}}`, and writes the queries' rows.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def run(
    uri: str, warehouse: Path, statements: Sequence[str], queries: Mapping[str, str]
) -> dict[str, list[list[Any]]]:
    """Run statements, then return the sorted rows of queries by name; values are text or None."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", __spec__.name, uri, str(warehouse)],
        input=json.dumps({"statements": list(statements), "queries": dict(queries)}),
        capture_output=True, text=True, timeout=300, cwd=Path(__file__).parents[3], check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    answer: dict[str, list[list[Any]]] = json.loads(done.stdout.splitlines()[-1])
    return answer


def main() -> None:
    """Do what standard input says."""
    from skipstone.spark import session
    from tests.support.spark.session import FAST

    uri, warehouse = sys.argv[1:]
    config = FAST | {
        "spark.sql.catalogImplementation": "hive",
        "spark.hadoop.hive.metastore.uris": uri,
        "spark.sql.warehouse.dir": f"file:{warehouse}",
        "spark.hadoop.hive.exec.dynamic.partition.mode": "nonstrict",
    }
    asked = json.loads(sys.stdin.read())
    spark = session(config, master="local[1]", name="hive")
    for statement in asked["statements"]:
        spark.sql(statement)
    rows = {
        name: sorted(
            [None if v is None else str(v) for v in row] for row in spark.sql(sql).collect()
        )
        for name, sql in asked["queries"].items()
    }
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
