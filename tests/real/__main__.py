"""Tables as real writers leave them: our rows and Spark's, our files and those of Spark's planner.

`make real` runs `python -m tests.real` with Delta's and Iceberg's packages, which Spark fetches.
A difference in rows fails, and so does a case where the other planner keeps fewer files, unless a
reason is listed beside it.
"""

import argparse
import json
import sys
import tempfile
import time
import warnings
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from skipstone.spark import session
from tests.real import (
    delta_special,
    delta_tables,
    iceberg_special,
    iceberg_tables,
    parquet_tables,
)
from tests.real.judging import Outcome, judge
from tests.real.made import Made
from tests.support.spark.lakes import (
    DELTA_CONFIG,
    DELTA_PACKAGES,
    ICEBERG_CONFIG,
    ICEBERG_PACKAGES,
)
from tests.support.spark.session import FAST

MAKERS = {
    "delta": (*delta_tables.MAKERS, *delta_special.MAKERS),
    "iceberg": (*iceberg_tables.MAKERS, *iceberg_special.MAKERS),
    "parquet": parquet_tables.MAKERS,
}


def spark_session(folder: Path) -> Any:
    import pyspark

    version = ".".join(pyspark.__version__.split(".")[:2])
    both = {name: f"{DELTA_CONFIG.get(name, '')},{value}".strip(",")
            for name, value in ICEBERG_CONFIG.items()}  # fmt: skip
    return session(
        FAST | DELTA_CONFIG | both | {
            "spark.jars.packages": f"{DELTA_PACKAGES[version]},{ICEBERG_PACKAGES[version]}",
            "spark.sql.catalog.ice.warehouse": str(folder / "ice"),
            "spark.driver.memory": "2g",
        },
        master="local[2]", name="tables of real writers",
    )  # fmt: skip


def is_wanted(only: str, format: str, writer: str, feature: str) -> bool:
    return only in f"{format}, {writer}, {feature}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.real", description=__doc__)
    parser.add_argument("--formats", nargs="+", default=list(MAKERS), choices=list(MAKERS))
    parser.add_argument("--only", default="", help="a part of the table's name")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--most", type=int, default=160, help="conditions over each table")
    parser.add_argument(
        "--share", type=float, default=0.25, help="the share of conditions that planners are asked"
    )
    parser.add_argument("--json", help="write the outcomes to this file")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    begun, outcomes = time.monotonic(), []
    with tempfile.TemporaryDirectory() as folder:
        spark = spark_session(Path(folder))
        for format in options.formats:
            for maker in MAKERS[format]:
                try:
                    for made in maker(
                        spark, Path(folder), partial(is_wanted, options.only, format)
                    ):
                        if is_wanted(options.only, format, made.writer, made.feature):
                            outcomes.append(outcome_of(spark, made, options))
                            show(outcomes[-1])
                except Exception as e:
                    name = f"{format}, {maker.__module__}, {maker.__name__}"
                    outcomes.append(Outcome(name, wrong=[f"not made: {type(e).__name__}: {e}"]))
                    show(outcomes[-1])
        spark.stop()
    asked = sum(o.conditions for o in outcomes)
    wrong, unexplained = (sum(len(getattr(o, k)) for o in outcomes)
                          for k in ("wrong", "unexplained"))  # fmt: skip
    print(
        f"{len(outcomes)} tables, {asked:,} conditions, {wrong} differ, "
        f"{sum(len(o.refused) for o in outcomes)} refused; files: "
        f"{sum(o.files for o in outcomes):,}, theirs {sum(o.theirs for o in outcomes):,}, "
        f"ours {sum(o.ours for o in outcomes):,}, {unexplained} unexplained; "
        f"{time.monotonic() - begun:.0f} s"
    )
    if options.json:
        Path(options.json).write_text(json.dumps([asdict(o) for o in outcomes], indent=1))
    return 1 if wrong or unexplained else 0


def outcome_of(spark: Any, made: Made, options: argparse.Namespace) -> Outcome:
    try:
        return judge(spark, made, options.seed, options.most, options.share)
    except Exception as e:
        return Outcome(made.name, wrong=[f"{type(e).__name__}: {e}"])


def show(o: Outcome) -> None:
    print(f"{o.table}: {o.conditions} conditions, {len(o.wrong)} differ, {len(o.refused)} refused; "
          f"{o.compared} compared: files {o.files}, theirs {o.theirs}, ours {o.ours}")  # fmt: skip
    for kind in ("wrong", "unexplained", "fewer", "failed", "refused"):
        for line in getattr(o, kind)[:8]:
            print(f"    {kind}: {' '.join(line.split())[:300]}")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
