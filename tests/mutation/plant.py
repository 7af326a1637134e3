"""Plant a fault in a child process, which then runs tests."""

from __future__ import annotations

import ast
import importlib
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from tests.mutation.mutants import Mutant
from tests.mutation.record import forget, run_tests
from tests.mutation.targets import Target


def functions(space: dict[str, Any], module: str, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the functions that a module or a class defines, by qualified name, without wrappers."""
    for name, value in space.items():
        at = f"{prefix}{name}"
        if isinstance(value, type) and value.__module__ == module:
            yield from functions(dict(vars(value)), module, f"{at}.")
            continue
        for inner in ("fget", "_compute", "__func__", "__wrapped__"):
            value = getattr(value, inner, value)
        if isinstance(value, FunctionType) and value.__module__ == module:
            yield at, value


def transplant(module: ModuleType, code: CodeType) -> None:
    """Give a module's functions and constants, wherever they are held, those of changed code."""
    space = {"__name__": module.__name__, "__file__": module.__file__}
    exec(code, space)
    old = dict(functions(vars(module), module.__name__))
    for name, new in functions(space, module.__name__):
        if name in old and old[name].__code__.co_filename == new.__code__.co_filename:
            old[name].__code__ = new.__code__
            old[name].__defaults__, old[name].__kwdefaults__ = new.__defaults__, new.__kwdefaults__
    for name, value in space.items():
        if isinstance(value, int | str | tuple | frozenset | dict) and not name.startswith("__"):
            setattr(module, name, value)
    forget(module)


def fork(work: Callable[[], int], log: Path) -> int:
    """Run some work in a child process and return its number."""
    child = os.fork()
    if child:
        return child
    code = 99
    try:
        out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(out, 1)
        os.dup2(out, 2)
        os.setpgid(0, 0)
        code = int(work())
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def on_import(mutant: Mutant) -> bool:
    """Return True if the change lies outside of all functions, so that an import reaches it."""
    lines = [
        range(n.body[0].lineno, (n.end_lineno or n.lineno) + 1)
        for n in ast.walk(ast.parse(mutant.source))
        if isinstance(n, ast.FunctionDef)
    ]
    return not any(mutant.lines[0] in body for body in lines)


def plant(target: Target, mutant: Mutant, tests: list[Any], log: Path) -> int:
    """Start a child that runs some tests with a fault."""

    def work() -> int:
        code = compile(mutant.tree(), str(target.path), "exec")
        transplant(importlib.import_module(target.module), code)
        return 0 if run_tests(tests) else 1

    return fork(work, log)


def warm(spark: bool) -> None:
    """Start the Java that children share, with the class that reads plans.

    Py4J keeps methods by the names of their classes, so a class that each child compiled for itself
    would work in the first child alone.
    """
    if spark:
        from pyspark import SparkConf, SparkContext

        from skipstone.bindings.spark.session.jvm import plan_gateway
        from skipstone.bindings.spark.session.session import quiet

        conf = SparkConf().set("spark.driver.memory", "1g")
        conf.set("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        with quiet():  # a warning that is an error here would leave PySpark half imported
            SparkContext._ensure_initialized(conf=conf)
            plan_gateway(SparkContext)
