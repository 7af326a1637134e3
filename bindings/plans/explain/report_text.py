"""Reports as text, which notebooks show line by line."""

from __future__ import annotations

from typing import Any


class ReportText(str):
    """A text of several lines. As the last line of a notebook's cell, it is shown as such."""

    __slots__ = ()

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))
