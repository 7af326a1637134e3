"""`Map`: a picture of the ranges of a plan's containers, as an HTML page or with matplotlib."""

from __future__ import annotations

import os
import sys
import tempfile
import webbrowser
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from skipstone.bindings.arguments import checked_names, checked_path
from skipstone.bindings.html import escape
from skipstone.bindings.progress import in_notebook
from skipstone.bindings.views.page import page_of, title_of
from skipstone.bindings.views.picture import MAX_COLUMNS, default_columns, picture_of
from skipstone.ir.cached import cached_property
from skipstone.ir.errors import PredicateError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from skipstone.bindings.plans.plan import Plan

FRAME_HEIGHT: Final = 820  # pixels of a notebook


class Map:
    """A picture of which containers a plan reads, over the ranges of some columns.

    Making it reads no data: bounds come from the plan's statistics, which it judges once more for
    each conjunct. Its size is bounded: if there are many containers, each mark stands for many.

    Attributes:
        plan: The plan.
        columns: The columns whose ranges are drawn; the first two are drawn against each other.

    Raises:
        UnknownColumn: the table lacks a column.
        PredicateError: too many columns are named.
    """

    def __init__(self, plan: Plan, columns: Sequence[str] = ()) -> None:
        first: object = columns[0] if isinstance(columns, tuple) and columns else None
        if isinstance(first, list | tuple):
            apart = ", ".join(map(repr, first))
            raise PredicateError(f"columns is {first!r:.60}; write them one by one: {apart}")
        columns = checked_names("columns", columns)
        if len(columns) > MAX_COLUMNS:
            raise PredicateError(f"a map shows at most {MAX_COLUMNS} columns; got {len(columns)}")
        self.plan = plan
        self.columns = tuple(dict.fromkeys(columns)) or tuple(default_columns(plan))

    @cached_property
    def picture(self) -> dict[str, Any]:
        """The data of the picture, as JSON takes it."""
        return picture_of(self.plan, self.columns)

    def to_html(self) -> str:
        """Return a page that loads nothing from the network, of less than 2 MB."""
        return page_of(self.picture)

    def plot(self) -> Figure:
        """Return the picture as a figure of matplotlib.

        Raises:
            BackendMissing: matplotlib is not installed.
        """
        from skipstone.bindings.views.figure import figure_of

        return figure_of(self.picture)

    def save(self, path: str | os.PathLike[str]) -> str:
        """Write the picture to a file, and return its path.

        Args:
            path: A file; `.html` gives the page, `.png`, `.svg` and `.pdf` the figure.

        Raises:
            PredicateError: the name ends otherwise.
            BackendMissing: a figure is wanted, and matplotlib is not installed.
            OSError: the file cannot be written.
        """
        path = checked_path("path", path)
        match Path(path).suffix.lower():
            case ".html" | ".htm":
                Path(path).write_text(self.to_html(), encoding="utf-8")
            case ".png" | ".svg" | ".pdf":
                self.plot().savefig(path, dpi=150)
            case suffix:
                ends = f"ends in {suffix!r}" if suffix else "has no ending"
                raise PredicateError(
                    f"cannot write a map to {path!r}: its name {ends}; "
                    "expected .html, .png, .svg or .pdf"
                )
        return path

    def show(self, path: str | os.PathLike[str] | None = None) -> str | None:
        """Show the picture: in the notebook's cell, else in the browser, if there is one.

        Args:
            path: The file to write; see `save`. None: a temporary HTML file, except in notebooks.

        Returns:
            The path of the file; None if none was written.
        """
        if path is not None:
            written = self.save(path)
        elif in_notebook():
            sys.modules["IPython"].display.display(self)
            return None
        else:
            handle, written = tempfile.mkstemp(prefix="skipstone-map-", suffix=".html")
            os.close(handle)
            self.save(written)
        if has_browser():
            webbrowser.open(Path(written).absolute().as_uri())
        return written

    def _repr_html_(self) -> str:
        page = escape(self.to_html(), quote=True)
        # Within a frame, the page's scripts and styles meet none of the notebook's.
        return (
            f'<div><iframe srcdoc="{page}" title="{escape(title_of(self.picture))}" width="100%" '
            f'height="{FRAME_HEIGHT}" style="border: 0" sandbox="allow-scripts"></iframe></div>'
        )

    def __repr__(self) -> str:
        return f"Map({title_of(self.picture)}, columns: {', '.join(self.columns)})"


def map_of_plan(plan: Plan, columns: Sequence[str] = ()) -> Map:
    """Return the map of a plan; see `Map`.

    Args:
        plan: The plan.
        columns: The columns to draw; by default those of its condition.
    """
    return Map(plan, columns)


def has_browser() -> bool:
    """Return True if a browser window can be opened, unlike in a terminal over a network."""
    if sys.platform in ("darwin", "win32"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
