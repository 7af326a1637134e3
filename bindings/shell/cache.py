"""The commands `skipstone cache info | clear`."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from skipstone.bindings.shell.text_table import print_table, print_warning
from skipstone.ir.errors import counted

if TYPE_CHECKING:
    from skipstone.bindings.shell.cache_files import Cache

folder_option = click.option(
    "--statistics-dir",
    help="The folder of saved statistics, as ss.config.statistics_cache_dir names it; by default "
    "SKIPSTONE_STATISTICS_CACHE_DIR.",
    metavar="FOLDER",
)


@click.group(no_args_is_help=True, help="Show or empty the caches.")
def app() -> None:
    """Show or empty the caches."""


def _caches(folder: str | None) -> list[Cache]:
    from skipstone.bindings.shell.cache_files import find_kernels, find_statistics
    from skipstone.ir.errors import SourceError, describe_error
    from skipstone.kernels.config import config
    from skipstone.kernels.settings import folder_of

    statistics_folder = config.statistics_cache_dir if folder is None else folder_of(folder)
    try:
        root = config.kernel_cache_dir
    except RuntimeError as e:  # the user has no home directory
        raise SourceError(
            f"the user's cache directory is not known ({describe_error(e)}); "
            "set SKIPSTONE_CACHE_DIR"
        ) from e
    return [find_kernels(root), find_statistics(statistics_folder, root)]


def _short(folder: str) -> str:
    """Return a folder with ~ for the user's home directory."""
    home = os.path.expanduser("~").rstrip(os.sep)
    inside = home and folder.startswith(home + os.sep)
    return f"~{folder.removeprefix(home)}" if inside else folder


@app.command("info", short_help="Show where the caches are, and what they hold.")
@folder_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def info(statistics_dir: str | None, as_json: bool) -> None:
    """Show where the caches are, how much they hold, and why one is not used."""
    rows = [_described(cache) for cache in _caches(statistics_dir)]
    if as_json:
        print(json.dumps(rows, indent=2))
        return
    print_table(
        ("cache", "entries", "bytes", "oldest", "folder"),
        [
            (
                row["cache"],
                f"{row['entries']:,}",
                f"{row['bytes']:,}",
                row["oldest"] or "-",
                _short(row["folder"]) if row["folder"] else "not set",
            )
            for row in rows
        ],
        left=("cache", "oldest", "folder"),
    )
    for row in rows:
        if row["problem"]:
            print_warning(f"{row['cache']}: not used: {row['problem']}")


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


@app.command("clear", short_help="Remove what the caches hold.")
@click.option("--kernels", is_flag=True, help="Only compiled kernels.")
@click.option("--statistics", is_flag=True, help="Only saved statistics.")
@folder_option
def clear(kernels: bool, statistics: bool, statistics_dir: str | None) -> None:
    """Remove compiled kernels and saved statistics; both are recreated when needed.

    Only files that Skipstone made are removed. Other processes may keep using the caches.
    """
    from skipstone.bindings.shell.cache_files import clear as clear_cache

    failed = False
    for cache in _caches(statistics_dir):
        if (kernels or statistics) and not (kernels if cache.name == "kernels" else statistics):
            continue
        if cache.problem is not None:
            failed = True
            click.echo(f"{cache.name}: nothing removed: {cache.problem}", err=True)
            continue
        gone = clear_cache(cache)
        if cache.folder is None and not (gone.entries or gone.in_use or gone.errors):
            print(f"{cache.name}: nothing removed: no folder is set; name it with --statistics-dir")
            continue
        where = f" from {_short(cache.folder)}" if cache.folder else ""
        entries = "1 entry" if gone.entries == 1 else f"{gone.entries:,} entries"
        print(f"{cache.name}: removed {entries}, {counted(gone.bytes, 'bytes')}{where}")
        if gone.in_use:
            print(f"{cache.name}: not removed: {gone.in_use:,} that another process makes now")
        for error in gone.errors:
            failed = True
            click.echo(f"{cache.name}: not removed: {error}", err=True)
    if failed:
        raise click.exceptions.Exit(1)
