"""Run what the pages print: Python blocks, and `$ skipstone` commands with their output."""

from __future__ import annotations

import re
from pathlib import Path

from tests.release.artifacts import ROOT
from tests.release.environment import Environment, has

COMMAND = re.compile(r"^```\n\$ (skipstone [^\n]*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
# A block that imports one of these runs where it is installed.
OPTIONAL = ("pyspark", "polars", "duckdb", "deltalake", "pyiceberg")
NEEDS = {"skipstone.spark": "pyspark"} | {name: name for name in OPTIONAL}


def commands(page: str) -> list[tuple[str, str]]:
    """Return the commands of a page, each with the output that it shows."""
    return COMMAND.findall(page)


def blocks(page: str) -> list[str]:
    """Return the Python blocks of a page."""
    return PYTHON.findall(page)


def needed(block: str) -> set[str]:
    """Return the optional packages that a block imports."""
    return {package for name, package in NEEDS.items() if f"import {name}" in block}


def run_page(environment: Environment, name: str, cwd: Path) -> str:
    """Run a page in an environment; `cwd` holds the demo data.

    Returns:
        What ran, in words.

    Raises:
        CommandFailed: a command or a block failed.
        AssertionError: a command did not print what the page shows.
    """
    page = (ROOT / name).read_text(encoding="utf-8")
    lacking = {package for package in OPTIONAL if not has(environment, package)}
    python = [b for b in blocks(page) if not needed(b) & lacking]
    script = cwd / "page.py"
    script.write_text("\n".join(python), encoding="utf-8")
    environment.run("python", script, cwd=cwd)
    shown = commands(page)
    for command, expected in shown:
        told = environment.type_in(command, cwd)
        assert shows(told, expected), f"{command}\n{told}\nexpected:\n{expected}"
    return f"{name}: {len(python)} of {len(blocks(page))} blocks, {len(shown)} commands"


def shows(told: str, expected: str) -> bool:
    """Return True if the output has the lines that a page shows, one after the other."""
    return "\n".join(_lines(expected)) in "\n".join(_lines(told))


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.strip().splitlines()]
