"""Print tables as aligned text, and warnings in colour."""

from __future__ import annotations

import os
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


def print_warning(text: str, err: bool = False) -> None:
    """Print a line, in yellow on terminals; NO_COLOR and FORCE_COLOR decide otherwise.

    If `err`, print it on standard error.
    """
    colour = False if os.environ.get("NO_COLOR") else bool(os.environ.get("FORCE_COLOR")) or None
    click.secho(text, err=err, fg="yellow", color=colour)
