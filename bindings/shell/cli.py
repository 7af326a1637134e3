"""The commands of the shell, built with click.

Tables are imported by the commands, so that help takes no time.
"""

from __future__ import annotations

import contextlib
import functools
import os
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click

from skipstone.bindings.shell import cache
from skipstone.bindings.shell.program import Program
from skipstone.ir.errors import SkipstoneWarning

if TYPE_CHECKING:
    from skipstone.bindings.tables.scan import SomeTable

PATH: Final = (
    "PATH is a Parquet file, a folder, a glob or a URI; a Delta table's folder; "
    "an Iceberg table's metadata file; or several Parquet files."
)
paths_argument = click.argument("paths", nargs=-1, required=True, metavar="PATH...")
WHERE: Final = "A condition in Spark SQL."
timezone_option = click.option("--timezone", default="UTC", help="The Spark session's time zone.")
keep_unreadable_option = click.option(
    "--keep-unreadable",
    is_flag=True,
    help="Keep files whose footers cannot be read, instead of failing.",
)
at_option = click.option(
    "--at",
    help="The version of a Delta table, a number or a time; or the snapshot of an Iceberg table, "
    "its id or the name of a branch or tag.",
    metavar="VERSION",
)
catalog_option = click.option(
    "--catalog",
    help="The catalog of an Iceberg table, by its name in pyiceberg's configuration; "
    "PATH is then the table's name, such as db.events.",
    metavar="NAME",
)
storage_option_option = click.option(
    "--storage-option",
    multiple=True,
    help="A credential or address of an object store, such as AWS_REGION=eu-west-1; "
    "may be repeated.",
    metavar="NAME=VALUE",
)


@dataclass(frozen=True, slots=True)
class Opening:
    """The options of the shell that say how a table is opened.

    Attributes:
        at: The version; None is the newest.
        catalog: The name of a catalog.
        storage_option: Options NAME=VALUE.
    """

    at: str | None
    catalog: str | None
    storage_option: Sequence[str]


def opening_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of `Opening` to a command, which gets them as `opening`."""

    @functools.wraps(command)
    def whole(
        *, at: str | None, catalog: str | None, storage_option: Sequence[str], **others: Any
    ) -> None:
        command(opening=Opening(at, catalog, storage_option), **others)

    return at_option(catalog_option(storage_option_option(whole)))


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
limit_option = click.option(
    "--limit", type=click.IntRange(min=0), help="The number of matching rows to plan for."
)
order_option = click.option(
    "--order-by", help="Columns to sort by, as after ORDER BY.", metavar="SQL"
)
page_option = functools.partial(click.option, help="Write an HTML page to a file.", metavar="FILE")


def _print_version(context: click.Context, parameter: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        from importlib.metadata import version

        print(f"skipstone {version('skipstone')}")
        context.exit()


@click.group(
    cls=Program,
    no_args_is_help=True,
    context_settings={"show_default": True, "help_option_names": ["-h", "--help"]},
    help="Find the files and row groups that can hold a matching row, from statistics alone.",
)
@click.option(
    "--version", is_flag=True, callback=_print_version, is_eager=True, expose_value=False,
    help="Print the version and exit.",
)  # fmt: skip
@click.pass_context
def app(context: click.Context) -> None:
    """Find the files and row groups that can hold a matching row, from statistics alone."""
    from skipstone.kernels.config import config

    if config.progress is None:
        context.with_resource(config.override(progress=True))  # bars, if this is a terminal


@app.command(
    "plan", short_help="Show which files and row groups must be read for a condition.", epilog=PATH
)
@paths_argument
@click.option("--where", "-w", help=WHERE, metavar="SQL")
@limit_option
@order_option
@timezone_option
@keep_unreadable_option
@json_option
@click.option("--files", is_flag=True, help="List the files and row groups to read.")
@click.option("--paths-only", is_flag=True, help="Print only paths of files to read, one per line.")
@opening_options
def plan(
    paths: Sequence[str], where: str | None, limit: int | None, order_by: str | None, timezone: str,
    keep_unreadable: bool, as_json: bool, files: bool, paths_only: bool, opening: Opening,
) -> None:  # fmt: skip
    """Show which files and row groups must be read for a condition."""
    from skipstone.bindings.shell.show import plan_json, show_paths, show_plan

    if paths_only and (as_json or files):
        raise click.BadParameter("expected one of --json, --files and --paths-only")
    quiet = as_json or paths_only
    table, scanned = _scan(paths, keep_unreadable, opening, quiet=quiet, whole=False)
    start = time.perf_counter()
    with _no_warnings(), _bars(quiet):
        result = table.plan(where=where, limit=limit, order_by=order_by, timezone=timezone)
    planned = time.perf_counter() - start
    if as_json:
        print(plan_json(result, scanned, planned))
    elif paths_only:
        show_paths(result)
    else:
        show_plan(result, scanned, planned, files)


@app.command(
    "explain",
    short_help="Explain what must be read, why, and what would prune more.",
    epilog=PATH,
)
@paths_argument
@click.option("--where", "-w", required=True, help=WHERE, metavar="SQL")
@limit_option
@order_option
@timezone_option
@keep_unreadable_option
@click.option("--pages", is_flag=True, help="Read page statistics, and show which pages remain.")
@click.option("--program", is_flag=True, help="Print the lowered program: the test of statistics.")
@click.option(
    "--container",
    help="Show what each conjunct saw in one file, or in one of its row groups.",
    metavar="FILE[:ROW_GROUP]",
)
@json_option
@click.option("--html", "as_html", is_flag=True, help="Print an HTML page.")
@page_option("--output", "-o")
@opening_options
def explain(
    paths: Sequence[str], where: str, limit: int | None, order_by: str | None, timezone: str,
    keep_unreadable: bool, pages: bool, program: bool, container: str | None, as_json: bool,
    as_html: bool, output: str | None, opening: Opening,
) -> None:  # fmt: skip
    """Explain what a condition must read after each phase, why, and what would prune more."""
    from skipstone.bindings.shell.show import show_explanation

    if as_html and (as_json or output is not None):
        other = "--json and --html" if as_json else "--html and --output"
        raise click.BadParameter(f"expected one of {other}")
    quiet = as_json or as_html
    table, _ = _scan(paths, keep_unreadable, opening, quiet=quiet, whole=False)
    with _no_warnings(), _bars(quiet):
        result = table.plan(where=where, limit=limit, order_by=order_by, timezone=timezone)
    explain_as = functools.partial(
        result.explain, pages=pages, program=program, container=container
    )
    show_explanation(explain_as, as_json=as_json, as_html=as_html, output=output)


@app.command(
    "map", short_help="Draw the ranges of columns, and what a condition prunes.", epilog=PATH
)
@paths_argument
@click.option(
    "--column", "-c", multiple=True, metavar="NAME",
    help="A column to draw; may be repeated. The first two are drawn against each other, too. "
    "By default the columns of the condition; without one, those of partitions, or else the first.",
)  # fmt: skip
@click.option("--where", "-w", help=WHERE, metavar="SQL")
@click.option(
    "--output", "-o", metavar="FILE",
    help="The file to write: .html, .png, .svg or .pdf. "
    "By default a temporary page, which the browser opens.",
)  # fmt: skip
@timezone_option
@keep_unreadable_option
@opening_options
def draw_map(
    paths: Sequence[str], column: Sequence[str], where: str | None, output: str | None,
    timezone: str, keep_unreadable: bool, opening: Opening,
) -> None:  # fmt: skip
    """Draw the ranges of columns in all containers, and which of them a condition prunes."""
    from skipstone.bindings.shell.map import draw

    table, _ = _scan(paths, keep_unreadable, opening)
    draw(table, list(column), where, output, timezone)


@app.command("advise", short_help="Recommend a layout in which queries read less.", epilog=PATH)
@paths_argument
@click.option(
    "--queries", metavar="FILE",
    help="A file with one condition per line, or with SELECT statements separated by semicolons.",
)  # fmt: skip
@click.option(
    "--sample/--no-sample", default=None,
    help="Predict from a sample of rows, or from statistics alone. [default: a sample if at most "
    "256 MiB must be read for it]",
)  # fmt: skip
@click.option(
    "--sample-rows", type=click.IntRange(min=1),
    help="How many rows to sample; implies --sample.",
)  # fmt: skip
@click.option("--name", help="The table's name in queries and in Spark.")
@page_option("--output", "-o", "--html")
@timezone_option
@keep_unreadable_option
@json_option
@opening_options
def advise(
    paths: Sequence[str], queries: str | None, sample: bool | None, sample_rows: int | None,
    name: str | None, output: str | None, timezone: str, keep_unreadable: bool, as_json: bool,
    opening: Opening,
) -> None:  # fmt: skip
    """Recommend columns to cluster a table by, and predict what its queries would read."""
    from skipstone.bindings.shell.advise import print_advice

    table, _ = _scan(paths, keep_unreadable, opening, quiet=as_json, whole=False)
    if sample_rows and sample is False:
        raise click.UsageError("--sample-rows and --no-sample exclude each other; leave one out")
    print_advice(
        table, queries, sample=sample_rows or sample, name=name, timezone=timezone,
        as_json=as_json, output=output,
    )  # fmt: skip


@app.command("stats", short_help="Show which statistics each column has.", epilog=PATH)
@paths_argument
@keep_unreadable_option
@json_option
@opening_options
def stats(paths: Sequence[str], keep_unreadable: bool, as_json: bool, opening: Opening) -> None:
    """Show which statistics exist for each column, and how many files have page indexes."""
    from skipstone.bindings.shell.show import show_stats

    table, _ = _scan(paths, keep_unreadable, opening, quiet=as_json)
    show_stats(table, as_json)


@app.command("check", short_help="Read rows, and report statistics that are wrong.", epilog=PATH)
@paths_argument
@click.option(
    "--column", "-c", multiple=True, metavar="NAME",
    help="A column to compare; may be repeated. By default all.",
)  # fmt: skip
@click.option(
    "--sample", type=click.IntRange(min=1), metavar="N",
    help="Read N row groups (files, in Delta and Iceberg tables), drawn at random.",
)  # fmt: skip
@timezone_option
@json_option
@opening_options
def check(
    paths: Sequence[str], column: Sequence[str], sample: int | None, timezone: str, as_json: bool,
    opening: Opening,
) -> None:  # fmt: skip
    """Compare statistics with the rows that they describe, and report those that are wrong.

    Exits with code 1 if any statistic is wrong.
    """
    table, _ = _scan(paths, False, opening, quiet=as_json)
    found = table.check(list(column) or None, sample=sample, timezone=timezone)
    print(found.to_json() if as_json else found)
    if not found.ok:
        raise click.exceptions.Exit(1)


@app.command("demo", short_help="Write sample data, and compare plans with full reads.")
@click.option("--folder", default="demo-data", help="The folder for the data.")
@click.option(
    "--scale",
    default=0.1,
    help="TPC-H scale factor.",
    type=click.FloatRange(min=0, min_open=True),
)
def demo(folder: str, scale: float) -> None:
    """Write sample data (flights of 2013, TPC-H), plan over it, and compare with full reads."""
    from skipstone.bindings.shell.demo import run

    run(folder, scale)


app.add_command(cache.app, name="cache")


@contextlib.contextmanager
def _no_warnings() -> Iterator[None]:
    """Silence the warnings about a condition, which the command prints by itself."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SkipstoneWarning)
        yield


def _bars(quiet: bool) -> contextlib.AbstractContextManager[object]:
    """Show no progress if `quiet`."""
    from skipstone.bindings.progress import overriding

    return overriding(False if quiet else None)


def _scan(
    paths: Sequence[str],
    keep_unreadable: bool,
    opening: Opening,
    quiet: bool = False,
    whole: bool = True,
) -> tuple[SomeTable, float]:
    """Scan a table and return it with the seconds that it took.

    It reads footers, or a Delta log, or a manifest list. If `quiet`, it shows no progress. If
    `whole`, it lists all partition folders, whose files the command shows; else a plan of the table
    lists those that its condition admits.
    """
    start = time.perf_counter()
    with _bars(quiet):
        table = _scan_now(paths, keep_unreadable, opening, whole)
    return table, time.perf_counter() - start


def _options(given: Sequence[str]) -> dict[str, str]:
    """Return the options NAME=VALUE by name."""
    for option in given:
        if not option.partition("=")[1]:
            raise click.BadParameter(
                f"{option!r} is not a storage option; expected NAME=VALUE, such as "
                "AWS_REGION=eu-west-1"
            )
    return {name: value for name, _, value in (option.partition("=") for option in given)}


def _scan_now(
    paths: Sequence[str], keep_unreadable: bool, opening: Opening, whole: bool
) -> SomeTable:
    from skipstone.bindings.tables.scan import find_table, open_table

    for path in paths[1:]:
        if set("=<>") & set(path) and "/" not in path and not os.path.exists(path):
            raise click.BadParameter(
                f"{path!r} is not a path; give a condition with --where, in quotes"
            )
    catalog, options = opening.catalog, _options(opening.storage_option)
    if catalog is not None and len(paths) > 1:
        raise click.BadParameter("expected the name of one table with --catalog")
    source = paths[0] if len(paths) == 1 else list(paths)
    found = find_table(source, catalog=catalog, storage_options=options or None)
    return open_table(
        found.source,
        "parquet" if whole and found.format == "hive" else found.format,
        version=opening.at,
        catalog=catalog,
        storage_options=found.storage_options,
        partition_schema=found.partition_schema,
        on_error="keep" if keep_unreadable else "raise",
    )
