"""The commands of the shell, built with typer.

Tables and rich are imported by the commands, so that help takes no time.
"""

from __future__ import annotations

import contextlib
import time
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from skipstone.bindings.shell import cache
from skipstone.ir.errors import SkipstoneWarning

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
app.add_typer(cache.app, name="cache")
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
Catalog = Annotated[
    str | None,
    typer.Option(
        help="The catalog of an Iceberg table, by its name in pyiceberg's configuration; "
        "PATH is then the table's name, such as db.events.",
        metavar="NAME",
    ),
]
StorageOption = Annotated[
    list[str] | None,
    typer.Option(
        help="A credential or address of an object store, such as AWS_REGION=eu-west-1; "
        "may be repeated.",
        metavar="NAME=VALUE",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
AsHtml = Annotated[bool, typer.Option("--html", help="Print a page of HTML.")]
Program = Annotated[
    bool, typer.Option("--program", help="Print the program that the condition became.")
]
Container = Annotated[
    str | None,
    typer.Option(
        help="Tell what each conjunct saw in one file, or in one of its row groups.",
        metavar="FILE[:ROW_GROUP]",
    ),
]
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
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Find the files and row groups that can hold a matching row, from statistics alone."""
    from skipstone.kernels.config import config

    if config.progress is None:
        context.with_resource(config.override(progress=True))  # bars, if this is a terminal


@app.command(short_help="Show which files and row groups a condition leaves to read.")
def plan(
    paths: Paths, where: Where = "true", limit: Limit = None, order_by: Order = None,
    timezone: TimeZone = "UTC", keep_unreadable: KeepUnreadable = False, as_json: AsJson = False,
    files: Files = False, catalog: Catalog = None, storage_option: StorageOption = None,
) -> None:  # fmt: skip
    """Show which files and row groups a condition leaves to read."""
    from skipstone.bindings.shell.show import plan_json, show_plan

    table, scanned = _scan(paths, keep_unreadable, catalog, storage_option, quiet=as_json)
    start = time.perf_counter()
    with _no_warnings():
        result = table.plan(where=where, limit=limit, order_by=order_by, timezone=timezone)
    planned = time.perf_counter() - start
    if as_json:
        print(plan_json(result, scanned, planned))
    else:
        show_plan(result, scanned, planned, files)


@app.command(short_help="Say what a condition leaves to read, why, and what would prune more.")
def explain(
    paths: Paths, where: Where, limit: Limit = None, order_by: Order = None,
    timezone: TimeZone = "UTC", keep_unreadable: KeepUnreadable = False, pages: Pages = False,
    program: Program = False, container: Container = None, as_json: AsJson = False,
    as_html: AsHtml = False, catalog: Catalog = None, storage_option: StorageOption = None,
) -> None:  # fmt: skip
    """Say what a condition leaves to read, phase by phase, why, and what would prune more."""
    if as_json and as_html:
        raise typer.BadParameter("expected one of --json and --html")
    table, _ = _scan(paths, keep_unreadable, catalog, storage_option, quiet=as_json or as_html)
    with _no_warnings():
        result = table.plan(where=where, limit=limit, order_by=order_by, timezone=timezone)
    form: Literal["json", "html", "text"] = "json" if as_json else "html" if as_html else "text"
    print(result.explain(pages=pages, program=program, container=container, format=form))


@app.command("map", short_help="Draw the ranges of columns, and what a condition prunes.")
def draw_map(
    paths: Paths,
    column: Annotated[
        list[str] | None,
        typer.Option(
            "--column", "-c", metavar="NAME",
            help="A column to draw; the first two are drawn against each other, too. "
            "By default the columns of the condition.",
        ),
    ] = None,
    where: Annotated[
        str | None, typer.Option("--where", "-w", help="A condition in Spark SQL.", metavar="SQL")
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            "--output", "-o", metavar="FILE",
            help="The file to write: .html, .png, .svg or .pdf. "
            "By default a temporary page, which the browser opens.",
        ),
    ] = None,
    timezone: TimeZone = "UTC", keep_unreadable: KeepUnreadable = False,
    catalog: Catalog = None, storage_option: StorageOption = None,
) -> None:  # fmt: skip
    """Draw the ranges of columns in all containers, and which of them a condition prunes."""
    from skipstone.bindings.shell.map import draw

    table, _ = _scan(paths, keep_unreadable, catalog, storage_option)
    draw(table, column or [], where, output, timezone)


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
    catalog: Catalog = None, storage_option: StorageOption = None,
) -> None:  # fmt: skip
    """Say which columns to cluster a table by, and what its queries would read then."""
    from skipstone.bindings.layout.advise import ROWS
    from skipstone.bindings.shell.advise import print_advice

    table, _ = _scan(paths, keep_unreadable, catalog, storage_option, quiet=as_json)
    rows = sample_rows or (ROWS if sample else 0)
    print_advice(
        table, queries, sample=rows, name=name, timezone=timezone, as_json=as_json, html=html
    )


@app.command(short_help="Show which statistics each column has.")
def stats(
    paths: Paths, keep_unreadable: KeepUnreadable = False, as_json: AsJson = False,
    catalog: Catalog = None, storage_option: StorageOption = None,
) -> None:  # fmt: skip
    """Show which statistics exist for each column, and how many files have page indexes."""
    from skipstone.bindings.shell.show import show_stats

    table, _ = _scan(paths, keep_unreadable, catalog, storage_option, quiet=as_json)
    show_stats(table, as_json)


@app.command(short_help="Make real data, plan over it, compare with full reads.")
def demo(
    folder: Annotated[str, typer.Option(help="The folder for the data.")] = "demo-data",
    scale: Annotated[float, typer.Option(help="TPC-H scale factor.")] = 0.1,
) -> None:
    """Make real data (flights of 2013, TPC-H), plan over it, and compare with full reads."""
    from skipstone.bindings.shell.demo import run

    run(folder, scale)


@contextlib.contextmanager
def _no_warnings() -> Iterator[None]:
    """Silence the warnings about a condition, which the command prints by itself."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SkipstoneWarning)
        yield


def _scan(
    paths: list[str],
    keep_unreadable: bool,
    catalog: str | None,
    storage_option: list[str] | None,
    quiet: bool = False,
) -> tuple[ParquetTable | DeltaTable | IcebergTable, float]:
    """Scan a table and return it with the seconds that it took.

    It reads footers, or a Delta log, or a manifest list. If `quiet`, it shows no progress.
    """
    from skipstone.bindings.progress import overriding

    start, options = time.perf_counter(), _options(storage_option or [])
    with overriding(False if quiet else None):
        table = _scan_now(paths, keep_unreadable, catalog, options)
    return table, time.perf_counter() - start


def _options(given: list[str]) -> dict[str, str]:
    """Return the options NAME=VALUE by name."""
    for option in given:
        if not option.partition("=")[1]:
            raise typer.BadParameter(
                f"{option!r} is no storage option; expected NAME=VALUE, such as "
                "AWS_REGION=eu-west-1"
            )
    return {name: value for name, _, value in (option.partition("=") for option in given)}


def _scan_now(
    paths: list[str], keep_unreadable: bool, catalog: str | None, options: dict[str, str]
) -> ParquetTable | DeltaTable | IcebergTable:
    from skipstone.bindings.location import chosen_filesystem
    from skipstone.bindings.tables.detect import format_of

    if catalog is not None and len(paths) > 1:
        raise typer.BadParameter("expected the name of one table with --catalog")
    source = paths[0] if len(paths) == 1 else paths
    match "iceberg" if catalog else format_of(source, chosen_filesystem(source, None, options)):
        case "delta":
            from skipstone.bindings.tables.delta.table import scan_delta

            return scan_delta(paths[0], storage_options=options or None)
        case "iceberg":
            from skipstone.bindings.tables.iceberg.table import scan_iceberg

            return scan_iceberg(paths[0], catalog=catalog, storage_options=options)
    from skipstone.bindings.tables.parquet.table import scan_parquet

    on_error: Literal["keep", "raise"] = "keep" if keep_unreadable else "raise"
    return scan_parquet(source, storage_options=options, on_error=on_error)
