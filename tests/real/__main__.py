"""Tables as real writers leave them: our rows and Spark's, our files and those of Spark's planner.

`make real` runs `python -m tests.real` with Delta's and Iceberg's packages, which Spark fetches.
A difference in rows fails. A table where the other planner keeps fewer files is listed.
"""

import argparse
import json
import random
import sys
import tempfile
import time
import warnings
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import skipstone as ss
from skipstone.spark import session
from tests.real import delta_tables, iceberg_tables, parquet_tables
from tests.real.conditions import conditions_of
from tests.real.made import Made
from tests.support.spark.answers import answers, set_in
from tests.support.spark.lakes import (
    DELTA_CONFIG,
    DELTA_PACKAGES,
    ICEBERG_CONFIG,
    ICEBERG_PACKAGES,
)
from tests.support.spark.session import FAST

MAKERS = {
    "delta": delta_tables.MAKERS,
    "iceberg": iceberg_tables.MAKERS,
    "parquet": parquet_tables.MAKERS,
}


@dataclass
class Outcome:
    """What was compared over one table."""

    table: str
    conditions: int = 0
    compared: int = 0
    files: int = 0
    ours: int = 0
    theirs: int = 0
    refused: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    fewer: list[str] = field(default_factory=list)


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


def files_of_peer(frame: Any, format: str, where: str) -> int | None:
    """Return how many data files the planner of Delta or Iceberg keeps; None if it is not said."""
    chosen = frame.where(where)
    if format == "delta":
        return len(chosen.inputFiles())
    chosen.collect()
    return scanned(chosen._jdf.queryExecution().executedPlan())


def scanned(node: Any) -> int | None:
    """Return the metric of Iceberg's scan in an executed plan."""
    if node.getClass().getSimpleName() == "BatchScanExec":
        metric = node.metrics().get("resultDataFiles")
        return int(metric.get().value()) if metric.isDefined() else None
    if node.getClass().getSimpleName() == "LocalTableScanExec":
        return 0
    children = node.children()
    found = [scanned(children.apply(i)) for i in range(children.size())]
    return next((n for n in found if n is not None), None)


def judge(spark: Any, made: Made, seed: int, share: float) -> Outcome:
    """Compare rows for all conditions over one table, and files for a share of them."""
    out = Outcome(f"{made.format}, {made.writer}, {made.feature}")
    frame = made.frame()
    conditions = conditions_of(frame, seed)
    r, table = random.Random(seed), made.scan()
    frame.createOrReplaceTempView("fuzzed")
    ids = sorted(row[0] for row in frame.select("id").collect())
    files = (
        {} if made.is_read else {row[0]: row[1] for row in frame.select("id", "_file").collect()}
    )
    with set_in(spark, {"spark.sql.ansi.enabled": "false"}):
        values = answers(spark, conditions)
        for where, found in zip(conditions, values, strict=True):
            if found is None:
                continue  # Spark refuses it
            expected = [i for i, v in zip(ids, found.to_pylist(), strict=True) if v]
            out.conditions += 1
            try:
                plan = table.plan(where, columns=["id"], ansi=False)
                fault = (
                    fault_of_rows(plan, expected, where, out)
                    if made.is_read
                    else fault_of_files(plan, {files[i] for i in expected})
                )
            except Exception as e:
                fault = f"{type(e).__name__}: {e}"
            if fault:
                out.wrong.append(f"{where}: {fault}")
            elif made.theirs and r.random() < share:
                ours = len(plan.files)
                theirs = files_of_peer(frame, made.format, where)
                if theirs is None:
                    continue
                out.compared += 1
                out.files += table.num_files
                out.ours += ours
                out.theirs += theirs
                if theirs < ours:
                    lost = len(expected) - frame.where(where).count()
                    why = f", but it loses {lost} rows" if lost else ""
                    out.fewer.append(f"{where}: {theirs} files, ours {ours}{why}")
    return out


def fault_of_rows(plan: Any, expected: list[int], where: str, out: Outcome) -> str:
    """Say how the rows of a plan differ from Spark's; "" if they do not."""
    try:
        rows = sorted(plan.to_arrow()["id"].to_pylist())
    except ss.UnsupportedForm as e:
        out.refused.append(f"{where}: {e}")
        wanted = set(expected)
        rows = sorted(i for i in plan.to_arrow(filter=False)["id"].to_pylist() if i in wanted)
    return "" if rows == expected else f"{len(rows)} rows, Spark {len(expected)}"


def fault_of_files(plan: Any, needed: set[str]) -> str:
    """Say what is wrong with the plan of a table with files that Skipstone refuses to read."""
    kept = {Path(file).name for file in plan.files}
    if lost := {Path(file).name for file in needed} - kept:
        return f"{len(lost)} files with matching rows are left out"
    if all(name.endswith(".parquet") for name in kept):
        return ""
    try:
        plan.to_arrow()
    except ss.SourceError as e:
        return "" if "expected PARQUET" in str(e) else str(e)
    return "files of other formats were read"


def is_wanted(only: str, format: str, writer: str, feature: str) -> bool:
    return only in f"{format}, {writer}, {feature}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.real", description=__doc__)
    parser.add_argument("--formats", nargs="+", default=list(MAKERS), choices=list(MAKERS))
    parser.add_argument("--only", default="", help="a part of the table's name")
    parser.add_argument("--seed", type=int, default=0)
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
                for made in maker(spark, Path(folder), partial(is_wanted, options.only, format)):
                    if not is_wanted(options.only, format, made.writer, made.feature):
                        continue
                    try:
                        outcomes.append(judge(spark, made, options.seed, options.share))
                    except Exception as e:
                        outcomes.append(
                            Outcome(f"{made.format}, {made.writer}, {made.feature}",
                                    wrong=[f"{type(e).__name__}: {str(e)[:300]}"])
                        )  # fmt: skip
                    show(outcomes[-1])
        spark.stop()
    asked = sum(o.conditions for o in outcomes)
    wrong = sum(len(o.wrong) for o in outcomes)
    print(
        f"{len(outcomes)} tables, {asked:,} conditions, {wrong} differ, "
        f"{sum(len(o.refused) for o in outcomes)} refused; files: "
        f"{sum(o.files for o in outcomes):,}, theirs {sum(o.theirs for o in outcomes):,}, "
        f"ours {sum(o.ours for o in outcomes):,}; {time.monotonic() - begun:.0f} s"
    )
    if options.json:
        Path(options.json).write_text(json.dumps([asdict(o) for o in outcomes], indent=1))
    return 1 if wrong else 0


def show(o: Outcome) -> None:
    print(f"{o.table}: {o.conditions} conditions, {len(o.wrong)} differ, {len(o.refused)} refused; "
          f"{o.compared} compared: files {o.files}, theirs {o.theirs}, ours {o.ours}")  # fmt: skip
    for kind in ("wrong", "fewer", "refused"):
        for line in getattr(o, kind)[:8]:
            print(f"    {kind}: {line}")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
