"""The commands `skipstone plan | explain | advise | stats | demo`, built with typer.

Tables and rich are imported by the commands, so that help takes no time.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from skipstone.bindings.tables.delta.table import DeltaTable
    from skipstone.bindings.tables.iceberg.table import IcebergTable
    from skipstone.bindings.tables.parquet.table import ParquetTable

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # rich would double the time of --help
    help="Find the files and row groups that can hold a matching row, from statistics alone.",
)
Paths = Annotated[
    list[str],
    typer.Argument(
        help="A Parquet file, a folder, a glob or a URI; a Delta table's folder; "
        "an Iceberg table's metadata file; or several Parquet files.",
        metavar="PATH...",
    ),
]
Where = Annotated[
    str, typer.Option("--where", "-w", help="A condition in Spark SQL.", metavar="SQL")
]
TimeZone = Annotated[str, typer.Option(help="The Spark session's time zone.")]
KeepUnreadable = Annotated[
    bool,
    typer.Option(
        "--keep-unreadable", help="Keep files whose footers cannot be read, instead of failing."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Limit = Annotated[int | None, typer.Option(help="The number of matching rows to plan for.", min=0)]
Order = Annotated[
    str | None, typer.Option(help="Columns to sort by, as after ORDER BY.", metavar="SQL")
]
Files = Annotated[bool, typer.Option("--files", help="List the files and row groups to read.")]

Pages = Annotated[
    bool, typer.Option("--pages", help="Read the statistics of pages, and say what they leave.")
]


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"skipstone {version('skipstone')}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Find the files and row groups that can hold a matching row, from statistics alone."""


@app.command(short_help="Show which files and row groups a condition leaves to read.")
def plan(
    paths: Paths, where: Where = "true", limit: Limit = None, order_by: Order = None,
    timezone: TimeZone = "UTC", keep_unreadable: KeepUnreadable = False, as_json: AsJson = False,
    files: Files = False,
) -> None:  # fmt: skip
    """Show which files and row groups a condition leaves to read."""
    from skipstone.bindings.shell.show import plan_json, show_plan

    table, scanned = _scan(paths, keep_unreadable, quiet=as_json)
    start = time.perf_counter()
    result = table.plan(where=where, limit=limit, order_by=order_by, timezone=timezone)
    planned = time.perf_counter() - start
    if as_json:
        print(plan_json(result, scanned, planned))
    else:
        show_plan(result, scanned, planned, files)


@app.command(short_help="Explain a condition, and what each conjunct prunes.")
def explain(
    paths: Paths, where: Where, timezone: TimeZone = "UTC", keep_unreadable: KeepUnreadable = False,
    pages: Pages = False, as_json: AsJson = False,
) -> None:  # fmt: skip
    """Explain how a condition is understood, and what each conjunct prunes."""
    table, _ = _scan(paths, keep_unreadable, quiet=as_json)
    result = table.plan(where=where, timezone=timezone)
    if as_json:
        from skipstone.bindings.shell.show import explain_json

        print(explain_json(result, pages=pages))
    else:
        print(result.explain(pages=pages))


@app.command(short_help="Say which layout would let queries read less.")
def advise(
    paths: Paths,
    queries: Annotated[
        str | None,
        typer.Option(
            help="A workload: a condition in each line, or SELECT statements with semicolons.",
            metavar="FILE",
        ),
    ] = None,
    sample: Annotated[
        bool, typer.Option("--sample", help="Read a sample of rows instead of statistics alone.")
    ] = False,
    sample_rows: Annotated[
        int, typer.Option(help="The rows of the sample; implies --sample.", min=0)
    ] = 0,
    name: Annotated[
        str | None, typer.Option(help="The table's name in queries and in Spark.")
    ] = None,
    html: Annotated[
        str | None, typer.Option(help="Write the report as a page.", metavar="FILE")
    ] = None,
    timezone: TimeZone = "UTC", keep_unreadable: KeepUnreadable = False, as_json: AsJson = False,
) -> None:  # fmt: skip
    """Say which columns to cluster a table by, and what its queries would read then."""
    from skipstone.bindings.layout.advise import ROWS
    from skipstone.bindings.shell.advise import print_advice

    table, _ = _scan(paths, keep_unreadable, quiet=as_json)
    rows = sample_rows or (ROWS if sample else 0)
    print_advice(
        table, queries, sample=rows, name=name, timezone=timezone, as_json=as_json, html=html
    )


@app.command(short_help="Show which statistics each column has.")
def stats(paths: Paths, keep_unreadable: KeepUnreadable = False, as_json: AsJson = False) -> None:
    """Show which statistics exist for each column, and how many files have page indexes."""
    from skipstone.bindings.shell.show import show_stats

    table, _ = _scan(paths, keep_unreadable, quiet=as_json)
    show_stats(table, as_json)


@app.command(short_help="Make real data, plan over it, compare with full reads.")
def demo(
    folder: Annotated[str, typer.Option(help="The folder for the data.")] = "demo-data",
    scale: Annotated[float, typer.Option(help="TPC-H scale factor.")] = 0.1,
) -> None:
    """Make real data (flights of 2013, TPC-H), plan over it, and compare with full reads."""
    from skipstone.bindings.shell.demo import run

    run(folder, scale)


def _scan(
    paths: list[str], keep_unreadable: bool, quiet: bool = False
) -> tuple[ParquetTable | DeltaTable | IcebergTable, float]:
    """Scan a table and return it with the seconds that it took.

    It reads footers, with a progress bar on standard error, or a Delta log, or a manifest list.
    """
    from skipstone.bindings.tables.detect import format_of

    start = time.perf_counter()
    source = paths[0] if len(paths) == 1 else paths
    match format_of(source):
        case "delta":
            from skipstone.bindings.tables.delta.table import scan_delta

            return scan_delta(paths[0]), time.perf_counter() - start
        case "iceberg":
            from skipstone.bindings.tables.iceberg.table import scan_iceberg

            return scan_iceberg(paths[0]), time.perf_counter() - start
    from skipstone.bindings.tables.parquet.table import scan_parquet

    on_error: Literal["keep", "raise"] = "keep" if keep_unreadable else "raise"
    if quiet or not sys.stderr.isatty():
        return scan_parquet(source, on_error=on_error), time.perf_counter() - start
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("reading footers", total=None)
        table = scan_parquet(
            source,
            on_error=on_error,
            progress=lambda done, total: bar.update(task, completed=done, total=total),
        )
    return table, time.perf_counter() - start
