"""Print tables as aligned text."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import click


def print_table(
    headings: Sequence[str], rows: Sequence[Sequence[str]], left: Collection[str]
) -> None:
    """Print rows below their headings, two spaces between columns.

    Args:
        headings: The name of each column.
        rows: The cells.
        left: The columns that are aligned to the left; numbers are to the right.
    """
    widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]
    for row in (headings, *rows):
        cells = (
            cell.ljust(width) if heading in left else cell.rjust(width)
            for heading, cell, width in zip(headings, row, widths, strict=True)
        )
        click.echo("  ".join(cells).rstrip())
