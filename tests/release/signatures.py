"""The signatures of public names: `python -m tests.release.signatures` writes the checked file.

A line of tests/data/public_signatures.txt is a public function, method or class as it is called:
names and defaults of its parameters, without types. Names without a signature of ours, such as
properties, are in tests/data/public_names.txt alone.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

DATA = Path(__file__).parents[1] / "data"
NAMES, SIGNATURES = DATA / "public_names.txt", DATA / "public_signatures.txt"
SPARK = "skipstone.spark."


def signatures(names: Iterable[str]) -> Iterator[str]:
    """Yield the signature of each public name that has one, in the order of the names."""
    for name in names:
        if name.startswith(SPARK) and importlib.util.find_spec("pyspark") is None:
            continue
        text = _signature(_resolve(name))
        if text is not None:
            yield name + text


def _resolve(name: str) -> Any:
    root = SPARK.rstrip(".") if name.startswith(SPARK) else "skipstone"
    rest = name.removeprefix(f"{root}.").split(".")
    owner = functools.reduce(getattr, rest[:-1], importlib.import_module(root))
    # A property or a method of a class must not be read through the descriptor.
    return inspect.getattr_static(owner, rest[-1], None) or getattr(owner, rest[-1])


def _signature(value: Any) -> str | None:
    """Return "(self, x, y=1)"; None for what is no function or class of ours."""
    if isinstance(value, classmethod | staticmethod):
        value = value.__func__
    module = getattr(value, "__module__", None) or ""
    if not callable(value) or not module.startswith(("skipstone", "pyspark_skipstone")):
        return None
    if inspect.isclass(value) and issubclass(value, BaseException | int):
        return None  # they are caught and compared; Python makes their signatures
    plain = [p.replace(annotation=p.empty) for p in inspect.signature(value).parameters.values()]
    return str(inspect.Signature(plain))


if __name__ == "__main__":
    if importlib.util.find_spec("pyspark") is None:
        sys.exit('public_signatures.txt needs pyspark: pip install "skipstone[spark]"')
    text = "".join(f"{line}\n" for line in signatures(sorted(NAMES.read_text().split())))
    SIGNATURES.write_text(text, encoding="utf-8")
    print(f"written: {len(text.splitlines())} signatures, to {SIGNATURES}")
