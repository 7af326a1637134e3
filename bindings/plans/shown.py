"""Display a plan: its explanation, and its map."""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from skipstone.bindings import hooks
from skipstone.bindings.plans.reading import Reading
from skipstone.ir.errors import PredicateError
from skipstone.ir.session import check_flag

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from skipstone.bindings.plans.plan import Plan

FORMATS: Final = ("text", "json", "html")  # what `explain` returns


class Shown(Reading):
    """The methods of a plan that show it to people. They read no rows."""

    def explain(
        self,
        *,
        pages: bool = False,
        program: bool = False,
        container: str | None = None,
        format: Literal["text", "json", "html"] = "text",
    ) -> str:
        """Return a report: which data is read and why, and what would prune more.

        The report shows what remains after each phase, what each conjunct prunes alone and in
        order, and why containers are kept, with a hint for each reason. Times were measured while
        this plan was made.

        Args:
            pages: Whether to include page pruning, which reads page statistics (see `pages`). If
                `pages` has been used before, the report includes it anyway.
            program: Whether to show how the condition was lowered to a program over statistics.
            container: A file, by its path or the end of it, or `FILE:ROW_GROUP`: what each conjunct
                saw there, and its verdict.
            format: "text"; "json"; or "html", a page that loads nothing from the network.

        Raises:
            PredicateError: `container` names no container of the plan, or `format` is unknown.
            SourceError, StaleFile: as for `pages`.

        Example:
            >>> import pyarrow as pa, pyarrow.parquet as pq, tempfile, os, skipstone as ss
            >>> path = os.path.join(tempfile.mkdtemp(), "t.parquet")
            >>> pq.write_table(pa.table({"x": range(100)}), path, row_group_size=50)
            >>> plan = ss.scan_parquet(path).plan("x >= 70")
            >>> text = plan.explain(container="t.parquet:0").split("container ")[1]
            >>> print(text)  # doctest: +ELLIPSIS
            /.../t.parquet, row group 0
               pruned by statistics: 50 rows, ... bytes
            └─ x >= 70  NEVER
                  x from 0 to 49, 0 NULLs
        """
        if format not in FORMATS:
            raise PredicateError(f"format is {format!r}; expected {', '.join(map(repr, FORMATS))}")
        check_flag("pages", pages)
        check_flag("program", program)
        plan = cast("Plan", self)
        if pages and self._pages is None:
            _ = plan.pages
        from skipstone.bindings.plans.explain.report import explanation_of
        from skipstone.bindings.plans.explain.report_text import ReportText

        found = explanation_of(plan, program=program, container=container)
        module = importlib.import_module(f"skipstone.bindings.plans.explain.as_{format}")
        return ReportText(getattr(module, f"as_{format}")(found))

    def show(
        self, path: str | os.PathLike[str] | None = None, *, columns: Sequence[str] = ()
    ) -> str | None:
        """Show a map of the plan: the containers' ranges, by verdict and by conjunct.

        It reads no data. A notebook shows the map in its cell. Elsewhere it is written to a file
        and opened in the browser, if there is one. The page loads nothing from the network.

        Args:
            path: The file to write: `.html`, or `.png`, `.svg` or `.pdf` by matplotlib. None: a
                temporary HTML file, except in notebooks.
            columns: The columns to draw; by default those of the condition. The first two are also
                drawn against each other.

        Returns:
            The path of the file; None if none was written.

        Raises:
            UnknownColumn: the table lacks a column.
            BackendMissing: a figure is wanted, and matplotlib is not installed.
            OSError: the file cannot be written.

        Example:
            >>> import pyarrow as pa, pyarrow.parquet as pq, tempfile, os, skipstone as ss
            >>> folder = tempfile.mkdtemp()
            >>> path = os.path.join(folder, "t.parquet")
            >>> pq.write_table(pa.table({"x": range(100)}), path, row_group_size=10)
            >>> page = ss.scan_parquet(path).plan("x >= 95").show(os.path.join(folder, "map.html"))
            >>> os.path.basename(page)
            'map.html'
        """
        shown: str | None = hooks.call("map of plan", self, columns).show(path)
        return shown

    def plot(self, *, columns: Sequence[str] = ()) -> Figure:
        """Return the map of the plan as a figure of matplotlib.

        Args:
            columns: See `show`.

        Raises:
            UnknownColumn: the table lacks a column.
            BackendMissing: matplotlib is not installed.
        """
        figure: Figure = hooks.call("map of plan", self, columns).plot()
        return figure

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if not name.startswith("_"):
                from skipstone.bindings.attributes import explain_attribute

                explain_attribute(self, "plan", name)
            return object.__getattribute__(self, name)

    def _repr_html_(self) -> str | None:
        return hooks.html("HTML of plan", self)
