"""The commands `skipstone cache info | clear`."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from skipstone.bindings.shell.cache_files import Cache

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Show or empty the caches.")
Folder = Annotated[
    str | None,
    typer.Option(
        "--statistics-dir",
        help="The folder of kept statistics, as ss.cache_dir names it; by default "
        "SKIPSTONE_STATISTICS_CACHE_DIR.",
        metavar="FOLDER",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def _caches(folder: str | None) -> list[Cache]:
    from skipstone.bindings.shell.cache_files import find_kernels, find_statistics
    from skipstone.ir.errors import SourceError, describe_error
    from skipstone.kernels.config import config
    from skipstone.kernels.settings import folder_of

    kept = config.statistics_cache_dir if folder is None else folder_of(folder)
    try:
        root = config.kernel_cache_dir
    except RuntimeError as e:  # the user has no home directory
        raise SourceError(
            f"the user's cache directory is not known ({describe_error(e)}); "
            "set SKIPSTONE_CACHE_DIR"
        ) from e
    return [find_kernels(root), find_statistics(kept, root)]


@app.command(short_help="Show where the caches are, and what they hold.")
def info(statistics_dir: Folder = None, as_json: AsJson = False) -> None:
    """Show where the caches are, how much they hold, and why one is not used."""
    rows = [_described(cache) for cache in _caches(statistics_dir)]
    if as_json:
        print(json.dumps(rows, indent=2))
        return
    from rich.console import Console
    from rich.table import Table as Grid

    grid = Grid()
    for heading in ("cache", "entries", "bytes", "oldest", "folder"):
        grid.add_column(
            heading,
            justify="right" if heading in ("entries", "bytes") else "left",
            overflow="fold",
        )
    for row in rows:
        grid.add_row(
            row["cache"],
            f"{row['entries']:,}",
            f"{row['bytes']:,}",
            row["oldest"] or "-",
            row["folder"] or "not set",
        )
    console = Console()
    console.print(grid)
    for row in rows:
        if row["problem"]:
            console.print(f"{row['cache']}: not used: {row['problem']}", style="yellow")


def _described(cache: Cache) -> dict[str, Any]:
    sizes = cache.sizes
    oldest = min((s.st_mtime for s in sizes), default=None)
    return {
        "cache": cache.name,
        "folder": cache.folder,
        "entries": len(cache.files),
        "bytes": sum(s.st_size for s in sizes),
        "oldest": None
        if oldest is None
        else datetime.fromtimestamp(oldest, UTC).strftime("%Y-%m-%d %H:%M:%S UTC"),
        "problem": cache.problem,
    }


@app.command(short_help="Remove what the caches hold.")
def clear(
    kernels: Annotated[bool, typer.Option("--kernels", help="Only compiled kernels.")] = False,
    statistics: Annotated[bool, typer.Option("--statistics", help="Only kept statistics.")] = False,
    statistics_dir: Folder = None,
) -> None:
    """Remove compiled kernels and kept statistics; both are made again when they are needed.

    Only files that Skipstone made are removed. Other processes may use the caches meanwhile.
    """
    from skipstone.bindings.shell.cache_files import clear as clear_cache

    failed = False
    for cache in _caches(statistics_dir):
        if (kernels or statistics) and not (kernels if cache.name == "kernels" else statistics):
            continue
        if cache.problem is not None:
            failed = True
            typer.echo(f"{cache.name}: nothing removed: {cache.problem}", err=True)
            continue
        gone = clear_cache(cache)
        where = f" from {cache.folder}" if cache.folder else ""
        print(f"{cache.name}: removed {gone.entries:,} entries, {gone.bytes:,} bytes{where}")
        if gone.in_use:
            print(f"{cache.name}: {gone.in_use:,} entries stay: another process makes them now")
        for error in gone.errors:
            failed = True
            typer.echo(f"{cache.name}: not removed: {error}", err=True)
    if failed:
        raise typer.Exit(1)
