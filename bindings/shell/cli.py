"""The commands `skipstone plan | explain | stats | demo`, built with typer and rich."""

import json
import sys
import time
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from skipstone.bindings.plans.plan import Plan
from skipstone.bindings.tables.delta.table import DeltaTable, scan_delta
from skipstone.bindings.tables.detect import format_of
from skipstone.bindings.tables.iceberg.table import IcebergTable, scan_iceberg
from skipstone.bindings.tables.parquet.pages.indexed import count_page_indexes
from skipstone.bindings.tables.parquet.table import ParquetTable, scan_parquet
from skipstone.ir.node import show_path

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Find the files and row groups that can hold a matching row, from statistics alone.",
)
Path = Annotated[
    str,
    typer.Argument(
        help="A Parquet file, a folder, a glob or a URI; a Delta table's folder; "
        "an Iceberg table's metadata file.",
        metavar="PATH",
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


@app.command()
def plan(
    path: Path, where: Where = "true", limit: Limit = None, order_by: Order = None,
    timezone: TimeZone = "UTC", keep_unreadable: KeepUnreadable = False, as_json: AsJson = False,
    files: Files = False,
) -> None:  # fmt: skip
    """Show which files and row groups a condition leaves to read."""
    table, scanned = _scan(path, keep_unreadable, quiet=as_json)
    start = time.perf_counter()
    result = table.plan(where=where, limit=limit, order_by=order_by, timezone=timezone)
    planned = time.perf_counter() - start
    if as_json:
        print(_plan_json(result, scanned, planned))
    else:
        _show_plan(result, scanned, planned, files)


@app.command()
def explain(
    path: Path, where: Where, timezone: TimeZone = "UTC", keep_unreadable: KeepUnreadable = False,
    pages: Pages = False,
) -> None:  # fmt: skip
    """Explain how a condition is understood, and what each conjunct prunes."""
    table, _ = _scan(path, keep_unreadable)
    print(table.plan(where=where, timezone=timezone).explain(pages=pages))


@app.command()
def stats(path: Path, keep_unreadable: KeepUnreadable = False, as_json: AsJson = False) -> None:
    """Show which statistics exist for each column, and how many files have page indexes."""
    table, _ = _scan(path, keep_unreadable, quiet=as_json)
    _show_stats(table, as_json)


@app.command()
def demo(
    folder: Annotated[str, typer.Option(help="The folder for the data.")] = "demo-data",
    scale: Annotated[float, typer.Option(help="TPC-H scale factor.")] = 0.1,
) -> None:
    """Make real data (flights of 2013, TPC-H), plan over it, and compare with full reads."""
    from skipstone.bindings.shell.demo import run

    run(folder, scale)


def _scan(
    path: str, keep_unreadable: bool, quiet: bool = False
) -> tuple[ParquetTable | DeltaTable | IcebergTable, float]:
    """Scan a table and return it with the seconds that it took.

    It reads footers, with a progress bar on standard error, or a Delta log, or a manifest list.
    """
    start = time.perf_counter()
    match format_of(path):
        case "delta":
            return scan_delta(path), time.perf_counter() - start
        case "iceberg":
            return scan_iceberg(path), time.perf_counter() - start
    with Progress(
        console=Console(stderr=True), transient=True, disable=quiet or not sys.stderr.isatty()
    ) as bar:
        task = bar.add_task("reading footers", total=None)
        table = scan_parquet(
            path,
            on_error="keep" if keep_unreadable else "raise",
            progress=lambda done, total: bar.update(task, completed=done, total=total),
        )
    return table, time.perf_counter() - start


def _plan_json(plan: Plan, scanned: float, planned: float) -> str:
    sizes = {k: asdict(getattr(plan.sizes, k)) for k in ("total", "partition", "scan")}
    return json.dumps(
        {
            "predicate": plan.predicate.expr if plan.predicate else None,
            "skipping": plan.skipping,
            "files": list(plan.files),
            **(_groups(plan) if plan.table.unit == "row groups" else {}),
            "sizes": sizes,
            "unreadable": {p: str(e) for p, e in plan.table.unreadable.items()},
            "seconds": {"scan": round(scanned, 6), "plan": round(planned, 6)},
            "work": {**plan.table.work.counts, "bytes": plan.table.work.bytes},
        },
        indent=2,
    )


def _groups(plan: Plan) -> dict[str, Any]:
    return {
        "row_groups": plan.row_groups,
        "row_groups_total": len(plan.verdicts),
        "row_groups_kept": len(plan.kept),
    }


def _show_plan(plan: Plan, scanned: float, planned: float, files: bool) -> None:
    console = Console()
    size = plan.sizes
    grid = Table(title=str(plan.predicate.expr) if plan.predicate else None, title_justify="left")
    for heading in ("", "total", "kept", "kept %"):
        grid.add_column(heading, justify="left" if not heading else "right")
    rows: list[tuple[str, int | None, int | None]] = [
        ("files", size.total.files, size.scan.files),
        *(
            [("row groups", len(plan.verdicts), len(plan.kept))]
            if plan.table.unit == "row groups"
            else []
        ),
        ("bytes", size.total.bytes, size.scan.bytes),
        ("rows", size.total.rows, size.scan.rows),
    ]
    for name, total, kept in rows:
        share = "-" if not total or kept is None else f"{100 * kept / total:.1f}"
        grid.add_row(name, _number(total), _number(kept), share)
    console.print(grid)
    work = plan.table.work
    counts = "".join(f", {n:,} {name}" for name, n in work.counts.items())
    console.print(
        f"scanned in {scanned * 1e3:.0f} ms, planned in {planned * 1e3:.1f} ms{counts}, "
        f"{work.bytes:,} bytes read"
    )
    for error in plan.table.unreadable.values():
        console.print(f"kept, but unreadable: {error}", style="yellow", markup=False)
    if files:
        for path, groups in plan.row_groups.items():
            console.print(
                f"{path}  row groups {groups}" if groups else path,
                markup=False,
                soft_wrap=True,
                highlight=False,
            )


def _number(value: int | None) -> str:
    return "unknown" if value is None else f"{value:,}"


def _show_stats(table: ParquetTable | DeltaTable | IcebergTable, as_json: bool) -> None:
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
    groups_too = f", {total} row groups" if table.unit == "row groups" else ""
    grid = Table(
        title=f"{table.num_files} files{groups_too}: the number that has each statistic",
        title_justify="left",
    )
    for heading in ("column", "type", "min", "max", "null_count"):
        grid.add_column(heading, justify="left" if heading in ("column", "type") else "right")
    for r in rows:
        grid.add_row(
            r["column"] + (" (partition)" if r["partition"] else ""),
            r["type"],
            *(str(r[k]) for k in ("min", "max", "null_count")),
        )
    Console().print(grid)
    if indexes is not None:
        unknown = f"; unknown in {indexes.unknown} files" if indexes.unknown else ""
        Console().print(
            f"page indexes in {indexes.files} of {table.num_files} files, "
            f"{indexes.row_groups} of {total} row groups{unknown}"
        )
