"""`power`: count the row groups that engines read, by form of predicate, on the same Parquet files.

The right answers come from Spark. A row group without a matching row need not be read; an engine's
figure is the share of those that it skips. A skipped row group with a matching row is a wrong
answer, shown as LOST.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow.parquet as pq

import skipstone as ss
from bench.power.answers import Answer, Questions
from bench.power.engines import ENGINES, by_spark
from bench.power.files import GROUPS, Table, make
from bench.power.form import Form
from bench.power.forms import FORMS
from bench.report.report import OWN, Options, Report, Requirement
from skipstone.ir.rows import evaluate_rows

CONFIG: Final = {
    "spark.ui.enabled": "false",
    "spark.log.level": "OFF",
    "spark.driver.memory": "1g",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


@dataclass(frozen=True)
class Truth:
    """The row groups that hold a matching row, and those that hold nothing else."""

    some: frozenset[int]
    every: frozenset[int]


@dataclass(frozen=True)
class Cell:
    """The result of one engine for one form: row groups that it skipped rightly and wrongly."""

    skipped: int
    lost: int
    empty: int

    @property
    def share(self) -> float:
        return self.skipped / self.empty if self.empty else 1.0

    def __str__(self) -> str:
        return f"{self.share:.0%}" + (f" LOST {self.lost}" if self.lost else "")


def power(options: Options) -> Report:
    """Row groups that engines skip: a row for each form of predicate, a column for each engine."""
    spark, why = _spark()
    report = Report(
        "share of the row groups without a match that each engine skips, and share of the fully "
        "matched ones that Skipstone finds (ALWAYS)"
    )
    try:
        with tempfile.TemporaryDirectory() as folder:
            tables = make(Path(folder), spark)
            forms = [f for f in FORMS if f.table in tables]
            truths = _by_rows(forms, tables) if spark is None else _by_spark(forms, tables, spark)
            own, always = _own(forms, tables, truths)
            others = _others(forms, tables, truths, spark, report)
            cells = {OWN: own, **{name: found for name, found in others.items() if found}}
    finally:
        if spark is not None:
            spark.stop()
    for form, truth in zip(forms, truths, strict=True):
        row: dict[str, Any] = {"": form.name, "empty": GROUPS - len(truth.some)}
        for name, found in cells.items():
            row[name] = str(found[form.name]) if form.name in found else "-"
            if name == OWN:
                row["ALWAYS"] = always[form.name]
        report.rows.append(row)
    behind = [f.name for f in forms if _behind(f, forms, cells)]
    report.requirements += [
        Requirement(
            f"of {len(forms)} forms, those where an engine skips more by a rule that loses no "
            f"row: {', '.join(behind) or 'none'}",
            len(behind),
            0,
            True,
        ),
        Requirement(
            "row groups with a match that Skipstone skips",
            sum(c.lost for c in own.values()),
            0,
            at_most=True,
        ),
    ]
    report.notes += [_total(name, found, len(forms)) for name, found in cells.items()]
    report.notes += [
        "Right answers are "
        + (
            "Spark's own."
            if spark is not None
            else f"those of Skipstone's row evaluator, and Spark wrote no files: {why}"
        ),
        "pyarrow: split_by_row_group. pyiceberg: its inclusive metrics evaluator, with a data file "
        "for each row group. DuckDB: row groups scanned, from the query's profile. Polars: what "
        "its reader prints. DataFusion: metrics of EXPLAIN ANALYZE. Spark: rows from its scan, "
        "without dictionary filters, which are not statistics.",
        "'-': no answer; a note gives the reason. LOST: skipped, but held a match.",
    ]
    if options.full:
        report.notes += [f"{f.name}: {f.sql:.150}" for f in forms]
    return report


def _spark() -> tuple[Any, str]:
    """Return a Spark session, or None and why there is none."""
    try:
        from skipstone.spark import session

        return session(CONFIG, master="local[2]", name="skipstone bench"), ""
    except (ImportError, ss.SkipstoneError, RuntimeError) as e:
        return None, str(e)


def _by_spark(forms: list[Form], tables: Mapping[str, Table], spark: Any) -> list[Truth]:
    """Find the truth by one Spark query for each table, which pushes nothing down or filters."""
    found: dict[str, Truth] = {}
    for name, table in tables.items():
        here = [f for f in forms if f.table == name]
        spark.read.parquet(str(table.path)).createOrReplaceTempView("t")
        counts = ", ".join(f"count_if({f.sql})" for f in here)
        rows = spark.sql(f"SELECT g, count(*), {counts} FROM t GROUP BY g").collect()
        for i, form in enumerate(here):
            some = frozenset(r[0] for r in rows if r[i + 2])
            found[form.name] = Truth(some, frozenset(r[0] for r in rows if r[i + 2] == r[1]))
    return [found[f.name] for f in forms]


def _by_rows(forms: list[Form], tables: Mapping[str, Table]) -> list[Truth]:
    """Find the truth by Skipstone's row evaluator, which the tests compare with Spark."""
    out = []
    for form in forms:
        table = tables[form.table]
        rows = pq.read_table(
            table.path, partitioning="hive" if table.partitioned else None
        ).combine_chunks()
        node = ss.PruningPredicate(form.sql, rows.schema).node
        matches = evaluate_rows(node, rows.to_batches()[0]).fill_null(False)
        group = rows["g"].to_numpy()
        matched = np.bincount(group[matches.to_numpy(zero_copy_only=False)], minlength=GROUPS)
        whole = matched == np.bincount(group, minlength=GROUPS)
        some, every = (frozenset(np.flatnonzero(mask).tolist()) for mask in (matched, whole))
        out.append(Truth(some, every))
    return out


def _own(
    forms: list[Form], tables: Mapping[str, Table], truths: list[Truth]
) -> tuple[dict[str, Cell], dict[str, str]]:
    """Return Skipstone's cells, and the shares of fully matched row groups that it finds."""
    scanned = {name: ss.scan_parquet(table.path) for name, table in tables.items()}
    cells, always = {}, {}
    for form, truth in zip(forms, truths, strict=True):
        table = scanned[form.table]
        order = _order(table, tables[form.table])
        verdicts = dict(zip(order, table.plan(where=form.sql).verdicts.tolist(), strict=True))
        kept = frozenset(g for g, v in verdicts.items() if v)
        cells[form.name] = _cell(Answer(0, kept, True), truth)
        wrong = sum(v == ss.Verdict.ALWAYS and g not in truth.every for g, v in verdicts.items())
        right = sum(verdicts[g] == ss.Verdict.ALWAYS for g in truth.every)
        always[form.name] = (f"{right / len(truth.every):.0%}" if truth.every else "") + (
            f" WRONG {wrong}" if wrong else ""
        )
    return cells, always


def _order(scanned: ss.ParquetTable, table: Table) -> list[int]:
    """Return the group of each of Skipstone's containers."""
    if table.path.is_file():
        return list(range(GROUPS))
    numbers = {str(path): i for i, path in enumerate(table.groups)}
    return [numbers[path] for path in scanned.files]


def _others(
    forms: list[Form], tables: Mapping[str, Table], truths: list[Truth], spark: Any, report: Report
) -> dict[str, dict[str, Cell]]:
    """Return the cells of each other engine; note what is absent or has no answer."""
    out: dict[str, dict[str, Cell]] = {}
    engines = ENGINES | ({} if spark is None else {"Spark": by_spark(spark)})
    for name, ask in engines.items():
        try:
            questions = [(f, tables[f.table], None) for f in forms]
            answers = ask(questions)
            # If groups with matches returned no rows, ask for each alone: was it not read, or was
            # it read and filtered differently from Spark?
            doubts = [
                (f, tables[f.table], g)
                for f, a, t in zip(forms, answers, truths, strict=True)
                if isinstance(a, Answer) and not a.exact
                for g in sorted(t.some - a.groups)
            ]
            alone = ask(doubts) if doubts else []
        except (ImportError, metadata.PackageNotFoundError) as e:
            report.notes.append(f"{name} is absent: {e}")
            continue
        report.notes += _unanswered(name, [*questions, *doubts], [*answers, *alone])
        unread = Counter(
            form.name
            for (form, _, _), answer in zip(doubts, alone, strict=True)
            if isinstance(answer, Answer) and answer.read == 0
        )
        out[name] = {
            f.name: _cell(a, t, unread[f.name])
            for f, a, t in zip(forms, answers, truths, strict=True)
            if isinstance(a, Answer)
        }
    return out


def _unanswered(name: str, questions: Questions, answers: Sequence[Answer | str]) -> list[str]:
    """Return a note for each reason why an engine gave no answer, with the forms."""
    found: dict[str, list[str]] = {}
    for (form, _, _), answer in zip(questions, answers, strict=True):
        if isinstance(answer, str):
            found.setdefault(answer, []).append(form.name)
    return [f"{name}, {why}: {'; '.join(dict.fromkeys(names))}" for why, names in found.items()]


def _cell(answer: Answer, truth: Truth, unread: int = 0) -> Cell:
    """Judge an answer; `unread` groups with a match were not even read when asked for alone."""
    empty = GROUPS - len(truth.some)
    if answer.exact:
        return Cell(
            GROUPS - len(truth.some | answer.groups), len(truth.some - answer.groups), empty
        )
    # A group that is read among others may be skipped when it is alone.
    lost = min(unread, GROUPS - answer.read)
    return Cell(GROUPS - answer.read - lost, lost, empty)


def _behind(form: Form, forms: list[Form], cells: Mapping[str, Mapping[str, Cell]]) -> bool:
    """Return True if an engine skips more by a rule that loses no row, here or in another file."""
    same = [f.name for f in forms if (f.rule or f.sql) == (form.rule or form.sql)]
    others = [
        found
        for name, found in cells.items()
        if name != OWN and form.name in found and not any(found[s].lost for s in same if s in found)
    ]
    return any(found[form.name].share > cells[OWN][form.name].share for found in others)


def _total(name: str, found: Mapping[str, Cell], forms: int) -> str:
    """Return a line on one engine: its version and its figures over all forms."""
    lost = sum(c.lost > 0 for c in found.values())
    whole = sum(c.share == 1 and not c.lost for c in found.values())
    mean = sum(0.0 if c.lost else c.share for c in found.values()) / forms
    if name != OWN:
        name += " " + metadata.version("pyspark" if name == "Spark" else name.lower())
    return (
        f"{name}: {mean:.0%} on average over {forms} forms, everything in {whole}, "
        f"wrong answers in {lost} (counted as nothing left out)."
    )
