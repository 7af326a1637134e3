"""Checks of arguments of the wrong type: one line that names the argument and the way out."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from skipstone.ir.errors import PredicateError


def checked_names(argument: str, names: object) -> list[str]:
    """Return names of columns as a list; a single name is a name.

    Raises:
        PredicateError: they are not names.
    """
    if isinstance(names, str):
        return [names]
    if isinstance(names, Iterable) and not isinstance(names, Mapping | bytes):
        found = list(names)
        if all(isinstance(name, str) for name in found):
            return found
    raise PredicateError(
        f"{argument} is {names!r:.60}; expected names of columns, such as ['x', 'y']"
    )


def checked_path(argument: str, path: object) -> str:
    """Return a path as text.

    Raises:
        PredicateError: it is neither text, bytes nor a path object.
    """
    if not isinstance(path, str | bytes | os.PathLike):
        raise PredicateError(
            f"{argument} is {path!r:.60}; expected the path of a file, as text or a pathlib path"
        )
    return os.fsdecode(path)
