"""Find the tests that share a session of Spark, or a server, without importing them."""

from __future__ import annotations

import ast
from collections.abc import Set
from functools import cache
from pathlib import Path
from typing import Final

SESSIONS: Final = frozenset({"spark", "connect"})
ROOT: Final = Path(__file__).parents[3]


def scope_of(nodeid: str) -> str:
    """Return the name that tests share if one process is to run them."""
    file, _, _ = nodeid.partition("::")
    if takes_spark(nodeid):
        return "spark"
    return file if _is_group(file) else nodeid


@cache
def _is_group(file: str) -> bool:
    return "xdist_group" in (ROOT / file).read_text(encoding="utf-8")


def takes_spark(nodeid: str) -> bool:
    """Return True if a test takes a session of Spark, by itself or by its fixtures."""
    file, _, test = nodeid.partition("::")
    return Path(file).name.startswith("test_") and test.partition("[")[0] in _takers(file)


@cache
def _takers(file: str) -> Set[str]:
    """Return the tests of a file and the fixtures that take a session."""
    path, asked = ROOT / file, dict[str, Set[str]]()
    folders = reversed(path.relative_to(ROOT).parents)
    for place in (*(ROOT / folder / "conftest.py" for folder in folders), path):
        asked |= _asked(place) if place.exists() else {}
    takers = set(SESSIONS)
    while more := {name for name, words in asked.items() if name not in takers and words & takers}:
        takers |= more
    return takers


def _asked(path: Path) -> dict[str, Set[str]]:
    """Return for each function of a file the words that may name fixtures that it takes."""
    asked, shared = dict[str, Set[str]](), set[str]()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            words = {a.arg for a in node.args.args}
            asked[node.name] = words | _strings(node) if "request" in words else words
            if "autouse=True" in "".join(map(ast.unparse, node.decorator_list)):
                shared |= asked[node.name]
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark":
            shared |= _strings(node)
    return {name: words | shared for name, words in asked.items()}


def _strings(node: ast.AST) -> set[str]:
    every = (n.value for n in ast.walk(node) if isinstance(n, ast.Constant))
    return {value for value in every if isinstance(value, str)}
