"""`skipstone advise`: which layout of a table would let its queries read less."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from skipstone.bindings.layout.workload_sql import split_workload
from skipstone.bindings.shell.show import write_page
from skipstone.ir.errors import SourceError, clip, describe_error

if TYPE_CHECKING:
    from skipstone.bindings.tables.table import Table


def workload_in(path: str) -> str:
    """Return the text of a workload file.

    Raises:
        SourceError: it cannot be read, or holds nothing.
    """
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as e:
        raise SourceError(
            f"{path}: the workload cannot be read ({describe_error(e)}); expected a text file "
            "with one condition per line, or SELECT statements separated by semicolons"
        ) from None
    if not split_workload(text):
        raise SourceError(
            f"{path}: the workload is empty; expected one condition per line, or SELECT "
            "statements separated by semicolons"
        )
    return text


def print_advice(
    table: Table,
    queries: str | None,
    *,
    sample: bool | int | None,
    name: str | None,
    timezone: str,
    as_json: bool,
    output: str | None,
) -> None:
    """Print a table's advice, or write it as a page.

    Args:
        table: The table.
        queries: The path of a workload file; None if there is no workload.
        sample: Whether to sample rows, or how many; None samples them if that is cheap.
        name: The table's name in queries and statements.
        timezone: The time zone of Spark's session.
        as_json: Whether to print JSON.
        output: The path of the page to write; None prints text.

    Raises:
        SourceError: the workload cannot be read, or the page cannot be written.
    """
    advice = table.advise(
        None if queries is None else workload_in(queries),
        sample=sample,
        name=name,
        timezone=timezone,
    )
    if queries is not None and not advice.queries and advice.unread:
        (text, why), parts = advice.unread[0], len(advice.unread)
        if parts == 1:
            found = f"the workload's only part, {clip(text)!r}, cannot be used: {why}"
        else:
            found = (
                f"none of the {parts:,} parts of the workload could be used; "
                f"the first is {clip(text)!r}: {why}"
            )
        raise SourceError(f"{queries}: {found}")
    if output is not None:
        write_page(advice.to_html(), output)
    if as_json:
        print(advice.to_json())
    elif output is not None:
        print(f"written: {output}")
    else:
        print(advice)
