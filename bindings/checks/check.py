"""`table.check`: compare the statistics of a table with its rows."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from skipstone.bindings.arguments import checked_names
from skipstone.bindings.checks.claims import RefutedClaim, refuted_claims, refuted_rows
from skipstone.bindings.checks.figures import RowFigures, figures_of
from skipstone.bindings.progress import Track
from skipstone.bindings.statistics.coerce_inputs import leaf_named
from skipstone.bindings.tables.read import read_in_order
from skipstone.ir.errors import SkipstoneError, clip, counted
from skipstone.ir.node import show_path
from skipstone.ir.types import Leaf, leaves_of

if TYPE_CHECKING:
    from skipstone.bindings.plans.plan import Plan
    from skipstone.bindings.tables.table import Table

MAX_SHOWN: Final = 20  # wrong statistics that the text shows
BLOCK: Final = 1 << 12  # containers whose figures are in memory at once


@dataclass(frozen=True, slots=True)
class WrongStatistic:
    """A statistic that the rows of its container refute.

    Attributes:
        path: The file.
        row_group: The row group in it; None if the statistic is the whole file's.
        column: The column's name, as in SQL; "" for the number of rows.
        statistic: "min", "max", "null_count", "nan_count" or "row_count".
        claimed: Its value. A null_count or nan_count of 0 may also be a schema that forbids NULL.
        found: The value that the rows have.
        effect: What happens to queries: "rows are lost", "min() or max() is wrong", "count() is
            wrong" or "no row is lost".
    """

    path: str
    row_group: int | None
    column: str
    statistic: str
    claimed: Any
    found: Any
    effect: str

    def __str__(self) -> str:
        where = self.path if self.row_group is None else f"{self.path}, row group {self.row_group}"
        what = f"{self.statistic} of {self.column}" if self.column else self.statistic
        claimed, found = clip(repr(self.claimed)), clip(repr(self.found))
        return f"{where}: {what} is {claimed}, the rows have {found}; {self.effect}"


@dataclass(frozen=True, slots=True)
class StatisticsCheck:
    """The result of comparing statistics with rows.

    Attributes:
        unit: The kind of the containers: "row groups" or "files".
        total: The containers of the table.
        containers: The containers whose rows were read.
        rows: Their rows.
        columns: The columns that were compared.
        wrong: The statistics that are wrong.
    """

    unit: str
    total: int
    containers: int
    rows: int
    columns: tuple[str, ...]
    wrong: tuple[WrongStatistic, ...]

    @property
    def ok(self) -> bool:
        """True if no statistic is wrong."""
        return not self.wrong

    def to_dict(self) -> dict[str, Any]:
        """Return the attributes as a dictionary; each wrong statistic is one, too."""
        return asdict(self)

    def to_json(self) -> str:
        """Return the attributes as JSON; values that JSON lacks become text."""
        return json.dumps(self.to_dict(), indent=2, default=str)

    def __str__(self) -> str:
        read = (
            f"read {self.containers:,} of {counted(self.total, self.unit)}: "
            f"{counted(self.rows, 'rows')}, {counted(len(self.columns), 'columns')}"
        )
        if self.ok:
            return f"{read}\nno statistic is wrong"
        verb = "is" if len(self.wrong) == 1 else "are"
        count = f"{counted(len(self.wrong), 'statistics')} {verb} wrong"
        lines = [read, count, *map(str, self.wrong)]
        more = len(self.wrong) - MAX_SHOWN
        return "\n".join([*lines[: 2 + MAX_SHOWN], *([f"and {more:,} more"] if more > 0 else [])])


def check(
    table: Table,
    columns: Sequence[str] | None = None,
    *,
    sample: int | None = None,
    timezone: str = "UTC",
) -> StatisticsCheck:
    """Compare a table's statistics with its rows; `Table.check` documents it."""
    plan = table.plan(timezone=timezone)
    leaves = _chosen(plan, columns)
    containers = _sampled(plan.kept, sample)
    names = list(dict.fromkeys(leaf.path[0] for leaf in leaves))
    plan.table.load([leaf.path for leaf in leaves])
    figures = read_in_order(
        lambda i: [figures_of(plan.only(np.array([i]), names).to_batches(), leaves)],
        containers.tolist(),
        Track("checking", len(containers), plan.table.unit),
    )
    rows, wrong = 0, []
    for first in range(0, len(containers), BLOCK):
        part = containers[first : first + BLOCK]
        found = list(itertools.islice(figures, len(part)))
        rows += sum(f.rows for f in found)
        wrong += _wrong_in(plan, leaves, part, found)
    return StatisticsCheck(
        plan.table.unit,
        len(plan.verdicts),
        len(containers),
        rows,
        tuple(show_path(leaf.path) for leaf in leaves),
        tuple(wrong),
    )


def _wrong_in(
    plan: Plan,
    leaves: Sequence[Leaf],
    containers: npt.NDArray[np.int64],
    found: Sequence[RowFigures],
) -> list[WrongStatistic]:
    """Return the wrong statistics of some containers, in table order."""
    wrong = [(claim, "") for claim in refuted_rows(plan, containers, [f.rows for f in found])]
    for i, leaf in enumerate(leaves):
        figures = [f.columns[i] for f in found]
        name = show_path(leaf.path)
        wrong += [(claim, name) for claim in refuted_claims(plan, leaf, containers, figures)]
    wrong.sort(key=lambda one: one[0].at)
    return [_described(plan, containers, claim, name) for claim, name in wrong]


def _chosen(plan: Plan, columns: Sequence[str] | None) -> list[Leaf]:
    """Return the columns to compare, and the fields of structs among them."""
    leaves = leaves_of(plan.table.schema)
    if columns is None:
        return list(leaves.values())
    named = checked_names("columns", columns)
    return [leaf_named(name, leaves, "columns=") for name in named]


def _sampled(kept: npt.NDArray[np.int64], sample: int | None) -> npt.NDArray[np.int64]:
    """Return some containers, drawn at random, in table order; None means all."""
    if sample is None:
        return kept
    whole = isinstance(sample, int | np.integer) and not isinstance(sample, bool)
    if not whole or sample < 1:
        raise SkipstoneError(f"sample is {sample!r}; expected a positive number of containers")
    if sample >= len(kept):
        return kept
    return np.sort(np.random.default_rng().choice(kept, sample, replace=False))


def _described(
    plan: Plan, containers: npt.NDArray[np.int64], claim: RefutedClaim, column: str
) -> WrongStatistic:
    ((path, groups),) = plan.table.row_groups_of(containers[claim.at : claim.at + 1]).items()
    return WrongStatistic(
        path, groups[0] if groups else None, column, claim.statistic, claim.claimed, claim.found,
        claim.effect,
    )  # fmt: skip
