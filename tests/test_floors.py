"""Floors and rooms: imports point one way, heavy packages have homes, files and rooms are small."""

import ast
import importlib
import re
from collections import Counter
from pathlib import Path

import pytest

from skipstone.bindings.hooks import HOOKS

ROOT = Path(__file__).parent.parent
FLOORS = ("ir", "kernels", "bindings")  # a floor may import those before it, and itself
# A room of bindings may import those before it, and itself. CONTRIBUTING shows the same table.
ROOMS = (
    "statistics",
    "predicates",
    "shards",
    "filters",
    "plans",
    "tables",
    "checks",
    "layout",
    "views",
    "joins",
    "spark",
    "shell",
)
SHARED = {
    "arguments",
    "attributes",
    "bars",
    "hooks",
    "html",
    "listing",
    "location",
    "progress",
    "store_options",
    "storage",
    "uris",
    "web",
}  # modules of bindings that every room may import
# Package or module -> where it may be imported. Generated kernels import numba too, but they are
# text. Everything else calls Arrow's functions by ir/compute.py.
HOMES = {
    "pyarrow.compute": (
        "bindings/predicates/arrow.py",
        "bindings/shell/demo.py",
        "bindings/tables/dataset.py",
    ),
    "numba": "kernels/",
    "cupy": "kernels/gpu/cupy_gpu.py",
    "sqlglot": "bindings/predicates/sql",
    "pyspark": ("bindings/spark/", "bindings/predicates/source.py"),  # the second: only types
    "pyiceberg": (
        "bindings/predicates/iceberg_expr.py",
        "bindings/predicates/source.py",
        "bindings/tables/iceberg/",
    ),
    "polars": (
        "bindings/plans/polars_source.py",
        "bindings/plans/reading.py",  # only types
        "bindings/shell/demo.py",
        "bindings/tables/parquet/pages/decoders.py",
        "bindings/tables/parquet/pages/polars_filter.py",
        "bindings/tables/table.py",  # only types
    ),
    "duckdb": ("bindings/plans/reading.py", "bindings/shell/demo.py"),
    "matplotlib": (
        "bindings/plans/shown.py",  # only types
        "bindings/views/figure.py",
        "bindings/views/map.py",  # only types
    ),
    "click": "bindings/shell/",
    "xxhash": (
        "bindings/statistics/membership.py",
        "bindings/statistics/store/",
        "ir/functions/hashes.py",
        "kernels/run/guard.py",
    ),
}
FILES = sorted(p for floor in FLOORS for p in (ROOT / floor).rglob("*.py"))
MAX_LINES, MAX_COLUMNS, MAX_FILES = 400, 100, 25
SOURCES = sorted(
    p
    for folder in (*FLOORS, "bench", "tests")
    for p in (ROOT / folder).rglob("*")
    if p.suffix in (".py", ".java", ".sh", ".js", ".css")
)


def test_no_test_file_imports_another():
    imports = re.compile(r"^ *(from|import) tests\.(\w+\.)*test_\w+", re.M)
    assert [str(p) for p in SOURCES if imports.search(p.read_text(encoding="utf-8"))] == []


def test_files_are_short():
    long = {
        p.relative_to(ROOT).as_posix()
        for p in SOURCES
        if len(p.read_text(encoding="utf-8").splitlines()) > MAX_LINES
    }
    assert long == set()


def test_lines_are_short():
    """Ruff holds Python's lines, but lets comments for other tools run on."""
    long = [
        f"{p.relative_to(ROOT).as_posix()}:{number}"
        for p in SOURCES
        for number, line in enumerate(p.read_text(encoding="utf-8").splitlines(), 1)
        if len(line) > MAX_COLUMNS
    ]
    assert long == []


def test_folders_hold_few_files():
    held = Counter(p.relative_to(ROOT).parent.as_posix() for p in SOURCES)
    assert {folder: n for folder, n in held.items() if n > MAX_FILES} == {}


def imports(text):
    """Yield the dotted names that a module imports, in functions too."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (a.name for a in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative import"
            yield from (f"{node.module}.{a.name}" for a in node.names)


def for_types(text):
    """Return the names that are imported only for type checkers."""
    blocks = [
        n
        for n in ast.walk(ast.parse(text))
        if isinstance(n, ast.If) and ast.unparse(n.test) == "TYPE_CHECKING"
    ]
    return {name for block in blocks for name in imports(ast.unparse(block))}


def wrong(place, text):
    """Return what a module at `place` imports although it must not."""
    floor, *rest = place.split("/")
    out = []
    for name in set(imports(text)):
        parts = name.split(".")
        home = HOMES.get(parts[0]) or HOMES.get(".".join(parts[:2]))
        if home is not None and not place.startswith(home):
            out.append(f"{name}; its home is {home}")
        if parts[0] != "skipstone":
            continue
        if len(parts) < 2 or parts[1] not in FLOORS[: FLOORS.index(floor) + 1]:
            out.append(f"{name}; it may not import {floor}")
        elif floor == parts[1] == "bindings" and parts[2] not in SHARED:
            room = rest[0].removesuffix(".py")
            mine = len(ROOMS) - 1 if room in SHARED else ROOMS.index(room)
            if ROOMS.index(parts[2]) > mine and name not in for_types(text):
                out.append(f"{name}; {room} may not import {parts[2]}")
    return out


@pytest.mark.parametrize("path", FILES, ids=[str(p.relative_to(ROOT)) for p in FILES])
def test_imports_point_one_way(path):
    place = path.relative_to(ROOT).as_posix()
    assert wrong(place, path.read_text(encoding="utf-8")) == []


PLANTED = {
    "kernels from ir": ("ir/node.py", "from skipstone.kernels.run import pool"),
    "a deferred import across rooms": (
        "bindings/plans/plan.py",
        "def f():\n    from skipstone.bindings.spark.reading.read_frame import read_plan",
    ),
    "tables from statistics": (
        "bindings/statistics/statistics.py",
        "from skipstone.bindings.tables.parquet.table import ParquetTable",
    ),
    "a heavy package": ("bindings/plans/plan.py", "import pyspark.sql"),
    "a slow module": ("ir/rows.py", "import pyarrow.compute as pc"),
    "the root package": ("ir/node.py", "import skipstone"),
}


@pytest.mark.parametrize(("place", "text"), PLANTED.values(), ids=PLANTED)
def test_planted_imports_are_found(place, text):
    assert wrong(place, text)


def test_every_hook_has_a_target():
    for target in HOOKS.values():
        module, _, name = target.partition(":")
        assert callable(getattr(importlib.import_module(f"skipstone.bindings.{module}"), name))


def test_contributing_shows_the_rooms():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = text.partition("<!-- floors:begin -->")[2].partition("<!-- floors:end -->")[0]
    assert tuple(re.findall(r"^\| `(\w+)/`", table, re.MULTILINE)) == ROOMS
