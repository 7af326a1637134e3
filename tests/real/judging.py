"""Compare one table: our rows with Spark's, our files with those of Spark's planner."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import skipstone as ss
import skipstone.spark as sks
from tests.real.conditions import columns_of, conditions_of, shown
from tests.real.made import Made
from tests.support.spark.answers import answers, set_in


@dataclass
class Outcome:
    """The result of the comparisons over one table.

    Attributes:
        conditions, compared: How many conditions were judged by rows, and by files as well.
        files, ours, theirs: Files of the table, and those that the planners keep, in sum.
        refused: Conditions that Skipstone plans, and refuses to filter by, or refusals of tables.
        wrong: Differences in rows, and errors.
        fewer: Conditions for which the other planner keeps fewer files, with the reason.
        unexplained: Those without a known reason.
        failed: Conditions on which the other planner raises an error, and Spark alone does not.
    """

    table: str
    conditions: int = 0
    compared: int = 0
    files: int = 0
    ours: int = 0
    theirs: int = 0
    refused: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    fewer: list[str] = field(default_factory=list)
    unexplained: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)


def judge(spark: Any, made: Made, seed: int, most: int, share: float) -> Outcome:
    """Compare rows for conditions over one table; files, and counts, for a share of them."""
    out = Outcome(made.name)
    if made.refused:
        return judge_refusal(made, out)
    frame, table = made.frame(), made.scan()
    conditions = conditions_of(frame, f"{seed}, {made.name}", most)
    r = random.Random(seed)
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
            chosen = r.random() < share
            try:
                plan = table.plan(where, columns=["id"], ansi=False)
                if made.is_read:
                    fault = fault_of_rows(plan, expected, where, chosen, out)
                else:
                    wanted = {i: Path(files[i]).name for i in expected}
                    fault = fault_of_files(plan, frame, where, wanted, out)
            except Exception as e:
                fault = f"{type(e).__name__}: {e}"
            if fault:
                out.wrong.append(f"{where}: {fault}")
            elif made.theirs and chosen:
                compare_files(table, plan, made, frame, where, len(expected), out)
    return out


def judge_refusal(made: Made, out: Outcome) -> Outcome:
    try:
        made.scan().plan().to_arrow()
        out.wrong.append("the table is read; expected an error")
    except ss.SourceError as e:
        known = made.refused.lower() in str(e).lower()
        (out.refused if known else out.wrong).append(str(e))
    return out


def fault_of_rows(
    plan: Any, expected: list[int], where: str, is_counted: bool, out: Outcome
) -> str:
    """Say how the rows of a plan differ from Spark's; "" if they do not."""
    try:
        rows = sorted(plan.to_arrow()["id"].to_pylist())
        if is_counted and (count := plan.count()) != len(expected):
            return f"count() is {count}, Spark's {len(expected)}"
    except ss.UnsupportedForm as e:
        out.refused.append(f"{where}: {e}")
        wanted = set(expected)
        rows = sorted(i for i in plan.to_arrow(filter=False)["id"].to_pylist() if i in wanted)
    return "" if rows == expected else f"{len(rows)} rows, Spark {len(expected)}"


def fault_of_files(plan: Any, frame: Any, where: str, wanted: dict[int, str], out: Outcome) -> str:
    """Say what is wrong with the plan of a table with files that Skipstone refuses to read.

    Spark reads the files that `prune` leaves. Its planner may lose rows itself.

    Args:
        plan: The plan of a condition.
        frame: Spark's DataFrame of the table.
        where: The condition.
        wanted: The ids of the rows that match, and the names of their files.
    """
    kept = {Path(file).name for file in plan.files}
    if lost := set(wanted.values()) - kept:
        return f"{len(lost)} files with matching rows are left out"
    chosen = frame.where(where)
    rows = [sorted(r[0] for r in df.select("id").collect()) for df in (sks.prune(chosen), chosen)]
    if rows[0] != rows[1]:
        return f"{len(rows[0])} rows of a pruned DataFrame, {len(rows[1])} of the same unpruned"
    if all(name.endswith(".parquet") for name in kept):
        return fault_of_rows(plan, sorted(wanted), where, False, out)
    try:
        plan.to_arrow()
    except ss.SourceError as e:
        return "" if "expected PARQUET" in str(e) else str(e)
    except ss.UnsupportedForm:
        return ""
    return "files of other formats were read"


def compare_files(
    table: Any, plan: Any, made: Made, frame: Any, where: str, rows: int, out: Outcome
) -> None:
    try:
        theirs = files_of_peer(frame, made.format, where)
    except Exception as e:  # Iceberg's planner fails on texts that are no UUIDs
        out.failed.append(f"{where}: {str(e).splitlines()[0]}")
        return
    if theirs is None:
        return
    ours = len(plan.files)
    out.compared += 1
    out.files += table.num_files
    out.ours += ours
    out.theirs += theirs
    if theirs < ours:
        reason = reason_of(table, frame, where, theirs, rows)
        case = f"{where}: {theirs} files, ours {ours}: {reason or 'no reason is known'}"
        (out.fewer if reason else out.unexplained).append(case)


def reason_of(table: Any, frame: Any, where: str, theirs: int, rows: int) -> str:
    """Return why Skipstone keeps more files than another planner; "" if no reason is known."""
    if lost := rows - frame.where(where).count():
        return f"the other planner loses {lost} rows"
    real = [shown(path) for path, kind in columns_of(frame.schema) if kind in ("float", "double")]
    no_nan = " AND ".join([f"({where})", *(f"NOT isnan({c})" for c in real)])
    if real and len(table.plan(no_nan, ansi=False).files) <= theirs:
        return "NaN is above all numbers, and bounds leave it out"
    return ""


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
