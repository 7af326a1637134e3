"""Print plans and statistics in the shell, as tables or as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from skipstone.bindings.location import shown
from skipstone.bindings.shell.text_table import print_table, print_warning
from skipstone.ir.errors import SourceError, counted, describe_error, shown_number
from skipstone.ir.node import show_path

if TYPE_CHECKING:
    from skipstone.bindings.plans.plan import Plan
    from skipstone.bindings.tables.scan import SomeTable


def plan_json(plan: Plan, scanned: float, planned: float) -> str:
    """Return a plan as JSON; `scanned` and `planned` are seconds."""
    return json.dumps(
        {
            "predicate": plan.predicate.expr if plan.predicate else None,
            "skipping": plan.skipping,
            "unused": [asdict(part) for part in plan.unused_parts],
            "files": list(plan.files),
            **(_groups(plan) if plan.table.unit == "row groups" else {}),
            "folders_not_listed": plan.table.skipped_folders,
            "sizes": _sizes(plan),
            "unreadable": {p: str(e) for p, e in plan.table.unreadable.items()},
            "seconds": {"scan": round(scanned, 6), "plan": round(planned, 6)},
            "work": {**plan.table.work.counts, "bytes": plan.table.work.bytes},
        },
        indent=2,
    )


def _sizes(plan: Plan) -> dict[str, Any]:
    """Return the sizes that are known."""
    parts = {k: getattr(plan.sizes, k) for k in ("total", "partition", "scan", "pages")}
    return {k: asdict(size) for k, size in parts.items() if size is not None}


def _groups(plan: Plan) -> dict[str, Any]:
    return {
        "row_groups": plan.row_groups,
        "row_groups_total": None if plan.table.skipped_folders else len(plan.verdicts),
        "row_groups_kept": len(plan.kept),
    }


def show_plan(plan: Plan, scanned: float, planned: float, files: bool) -> None:
    """Print a plan as a table, and if `files` the files to read."""
    size, unlisted = plan.sizes, plan.table.skipped_folders
    if asked := _asked(plan):
        click.echo(asked)
    rows: list[tuple[str, int | None, int | None]] = [
        ("files", size.total.files, size.scan.files),
        *(
            [("row groups", None if unlisted else len(plan.verdicts), len(plan.kept))]
            if plan.table.unit == "row groups"
            else []
        ),
        ("bytes", size.total.bytes, size.scan.bytes),
        ("rows", size.total.rows, size.scan.rows),
    ]
    shares = [
        "-" if not total or kept is None else f"{100 * kept / total:.1f}" for _, total, kept in rows
    ]
    print_table(
        ("", "total", "kept", "kept %"),
        [
            (name, "not listed" if unlisted else shown_number(total), shown_number(kept), share)
            for (name, total, kept), share in zip(rows, shares, strict=True)
        ],
        left=("",),
    )
    work = plan.table.work
    counts = "".join(f", {counted(n, name)}" for name, n in work.counts.items())
    if unlisted:
        click.echo(f"{counted(unlisted, 'folders')} not listed")
    click.echo(
        f"scanned in {scanned * 1e3:,.1f} ms, planned in {planned * 1e3:,.1f} ms{counts}, "
        f"{counted(work.bytes, 'bytes')} read"
    )
    _warn(plan)
    if files:
        for path, groups in plan.row_groups.items():
            click.echo(f"{path}  row groups {groups}" if groups else path)


def _asked(plan: Plan) -> str:
    """Return what a plan is for, as after WHERE; "" if it is for all rows."""
    limit = None if plan.cut is None else plan.cut.limit
    parts = [
        plan.predicate.expr if plan.predicate else "",
        f"ORDER BY {', '.join(map(str, plan.order))}" if plan.order else "",
        "" if limit is None else f"LIMIT {limit}",
    ]
    return " ".join(filter(None, parts))


def show_explanation(
    explain_as: Callable[..., str], *, as_json: bool, as_html: bool, output: str | None
) -> None:
    """Print an explanation, or write it as a page.

    Args:
        explain_as: Returns the explanation in a `format=`.
        as_json, as_html: Whether to print JSON, or a page; else text.
        output: The path of the page to write; None writes none.

    Raises:
        SourceError: the page cannot be written.
    """
    if output is not None:
        write_page(explain_as(format="html"), output)
    if as_json or as_html or output is None:
        print(explain_as(format="json" if as_json else "html" if as_html else "text"))
    else:
        print(f"written: {output}")


def write_page(page: str, path: str) -> None:
    """Write an HTML page.

    Raises:
        SourceError: it cannot be written, or the name is that of another format.
    """
    suffix = Path(path).suffix
    if suffix.lower() not in ("", ".html", ".htm"):
        raise SourceError(
            f"{shown(path)}: the page is HTML, not {suffix}; expected a name that ends in .html"
        )
    try:
        Path(path).write_text(page, encoding="utf-8")
    except (OSError, ValueError) as e:  # a path with a NUL raises ValueError
        raise SourceError(
            f"{shown(path)}: the page cannot be written ({describe_error(e)}); name another file"
        ) from None


def show_paths(plan: Plan) -> None:
    """Print the paths of the files to read, one per line; warnings go to standard error."""
    _warn(plan, err=True)
    for path in plan.files:
        click.echo(path)


def _warn(plan: Plan, err: bool = False) -> None:
    for part in plan.unused_parts:
        print_warning(str(part), err)
    for error in plan.table.unreadable.values():
        print_warning(f"kept, but unreadable: {error}", err)


def show_stats(table: SomeTable, as_json: bool) -> None:
    """Print which statistics a table has of each column."""
    from skipstone.bindings.shell.page_indexes import count_page_indexes
    from skipstone.bindings.tables.parquet.table import ParquetTable

    rows: list[dict[str, Any]] = []
    for path in table.statistics.leaf_paths():
        raw, leaf = table.statistics.raw(path), table.statistics.leaf(path)
        counts = {
            k: 0 if (a := getattr(raw, k)) is None else len(a) - a.null_count
            for k in ("min", "max", "null_count")
        }
        rows.append(
            {
                "column": show_path(path),
                "type": str(leaf.dtype) if leaf else "",
                **counts,
                "partition": path[0] in table.partition_columns,
            }
        )
    total = table.statistics.num_containers
    indexes = count_page_indexes(table) if isinstance(table, ParquetTable) else None
    if as_json:
        groups = {"row_groups": total} if table.unit == "row groups" else {}
        pages = {} if indexes is None else {"page_indexes": asdict(indexes)}
        print(json.dumps({"files": table.num_files, **groups, **pages, "columns": rows}, indent=2))
        return
    groups_too = f", {counted(total, 'row groups')}" if table.unit == "row groups" else ""
    click.echo(
        f"{counted(table.num_files, 'files')}{groups_too}: the number that has each statistic"
    )
    print_table(
        ("column", "type", "min", "max", "null_count"),
        [
            (
                r["column"] + (" (partition)" if r["partition"] else ""),
                r["type"],
                *(str(r[k]) for k in ("min", "max", "null_count")),
            )
            for r in rows
        ],
        left=("column", "type"),
    )
    if indexes is not None:
        unknown = f"; unknown in {counted(indexes.unknown, 'files')}" if indexes.unknown else ""
        click.echo(
            f"page indexes in {indexes.files} of {counted(table.num_files, 'files')}, "
            f"{indexes.row_groups} of {counted(total, 'row groups')}{unknown}"
        )
