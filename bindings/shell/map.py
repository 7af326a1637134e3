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
        where: The condition; None draws only the ranges.
        output: The file to write; None means a temporary HTML file, which the browser opens.
        timezone: The time zone in which the condition is read.

    Raises:
        SourceError: the file cannot be written.
    """
    from skipstone.bindings.views.page import title_of
    from skipstone.ir.errors import SkipstoneError, SourceError, describe_error

    made = table.map(*columns, where=where, timezone=timezone)
    try:
        written = made.show() if output is None else made.save(output)
    except SkipstoneError:
        raise
    except OSError as e:
        place = "a temporary folder" if output is None else output
        raise SourceError(
            f"{place}: the map cannot be written ({describe_error(e)}); name another file"
        ) from None
    print(f"{title_of(made.picture)}, columns: {', '.join(made.columns)}", file=sys.stderr)
    print(written)
