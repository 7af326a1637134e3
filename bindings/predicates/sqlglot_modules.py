"""Import sqlglot's modules when the first text is parsed.

A program may have sqlglot's compiled build as well (`sqlglot[c]`), whose classes cannot have
subclasses in Python (sqlglot, issue 7923); ours of its parser reads text as Spark does. sqlglot's
Python sources, which the compiled build leaves in place, are then imported under another name, and
the program goes on using the compiled modules.
"""

from __future__ import annotations

import builtins
import functools
import importlib
import sys
from collections.abc import Sequence
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from skipstone.kernels.run.first_import import first_import

SOURCES: Final = "skipstone_sqlglot"
# What sqlglot raises for some texts that it should refuse: `0{:}`, `x FLOAT(similar)`.
FAULTS: Final = (AttributeError, LookupError, TypeError, ValueError)


@functools.cache
def sqlglot(name: str = "expressions") -> Any:
    """Return a module of sqlglot by its name in the package, such as "dialects.spark"."""
    first_import(f"{package()}.dialects.spark")
    return importlib.import_module(f"{package()}.{name}")


def text_of(tree: Any) -> str:
    """Return a tree as text of Spark SQL; the name of its class if sqlglot cannot write it."""
    try:
        return str(tree.sql(dialect="spark"))
    except FAULTS:
        return type(tree).__name__


@functools.cache
def package() -> str:
    """Return the name under which sqlglot's classes can have subclasses."""
    top = source_folder()
    if top is None or not any((top / f"parser{s}").exists() for s in EXTENSION_SUFFIXES):
        return "sqlglot"
    sys.meta_path.insert(0, _SourceFinder(top))  # the usual one would find the compiled modules
    return SOURCES


@functools.cache
def source_folder() -> Path | None:
    """Return the folder of sqlglot's modules; None if they are not in files."""
    spec = PathFinder.find_spec("sqlglot")
    return None if spec is None or spec.origin is None else Path(spec.origin).parent


class _SourceFinder:
    """Finds the sources of sqlglot's modules under their other name."""

    def __init__(self, top: Path) -> None:
        self.top = top

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Return how to import a module from its source; None if it is not sqlglot's."""
        if name.partition(".")[0] != SOURCES:
            return None
        place = self.top.joinpath(*name.split(".")[1:])
        source = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
        return spec_from_file_location(name, source, loader=_SourceLoader(name, str(source)))


class _SourceLoader(SourceFileLoader):
    """Runs a source of sqlglot, which then imports other sources of sqlglot."""

    def exec_module(self, module: ModuleType) -> None:
        """Run the source with an `import` of its own."""
        vars(module)["__builtins__"] = vars(builtins) | {"__import__": _import}
        super().exec_module(module)


def _import(
    name: str,
    names: Any = None,
    values: Any = None,
    parts: Sequence[str] | None = (),
    level: int = 0,
) -> Any:
    """Import a module for a source of sqlglot; modules of sqlglot from their sources.

    Like `__import__`, it returns the first package of a dotted name if no parts are asked for.
    """
    if name == "importlib":
        return _Importlib
    return __import__(name if level else _renamed(name), names, values, parts or (), level)


class _Importlib:
    """The part of `importlib` that sqlglot uses."""

    @staticmethod
    def import_module(name: str, parent: str | None = None) -> ModuleType:
        """Import a module; modules of sqlglot from their sources."""
        return importlib.import_module(_renamed(name), parent)


def _renamed(name: str) -> str:
    """Return the name of a module; of a module of sqlglot, the name of its source."""
    top, dot, rest = name.partition(".")
    return f"{SOURCES}{dot}{rest}" if top == "sqlglot" else name
