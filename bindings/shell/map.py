"""The command `skipstone map`: a picture of a table's ranges, as HTML or PNG."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skipstone.bindings.tables.table import Table


def draw(
    table: Table, columns: list[str], where: str | None, output: str | None, timezone: str
) -> None:
    """Write the map of a table, and print the path of the file.

    Args:
        table: The table.
        columns: The columns to draw; none: those of the condition.
        where: The condition; None: only the ranges are drawn.
        output: The file to write; None: a temporary HTML file, which the browser opens.
        timezone: The time zone in which the condition is read.
    """
    from skipstone.bindings.views.page import title_of

    made = table.map(*columns, where=where, timezone=timezone)
    written = made.show() if output is None else made.save(output)
    print(f"{title_of(made.picture)}, columns: {', '.join(made.columns)}", file=sys.stderr)
    print(written)
