"""Save parsed texts on disk, so that a later process can do without sqlglot.

Importing sqlglot takes 0.1 s, a quarter of the time to a process's first answer. The tree of a text
whose literals are marks (`sql_cache.py`) is saved in `parses` below `config.kernel_cache_dir`. A
later process reads it until something imports sqlglot; after that, parsing is as fast as reading.

A file's name is the digest of the text and of the state of all sources that decide how it is
parsed: sqlglot's and our own. So an update or an edit makes new files. A file begins with a digest
of the rest; a damaged file counts as missing. Nothing is saved if a program may have changed
sqlglot's dialect: if the program imported sqlglot first, or if its classes have changed since the
first text.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import time
from collections.abc import Sized
from pathlib import Path
from typing import Any, Final

from skipstone.bindings.predicates.sqlglot_modules import package, source_folder, sqlglot
from skipstone.ir import types as ty
from skipstone.ir.node import Name, Node, Op
from skipstone.kernels.run.compile_cache import folder_or_reason, write_whole

Parsed = tuple[Node, dict[Name, int]]

FOLDER: Final = "parses"  # its name in `config.kernel_cache_dir`
MAX_CHARACTERS: Final = 2_000  # longer texts are not saved
MAX_SAVED: Final = 16  # the texts that one process saves
MAX_FILES: Final = 1_000  # if the folder has more, the oldest half is removed
DIGEST: Final = 32  # bytes
# What decides how a text is parsed, relative to the package.
OWN_SOURCES: Final = ("bindings/predicates", "ir")
# If a source changed within this many ns before this module was imported, or later, this process
# may run an older version of it: nothing is saved or read.
SETTLED: Final = 10 * 10**9
IMPORTED: Final = time.time_ns()

_saved = 0
# True once this module has let sqlglot be imported: nobody else had changed it before.
_imported_here = False
_first_dialect: frozenset[tuple[str, str, int, int]] | None = None


def find(text: str) -> Parsed | None:
    """Return the saved parse of a text; None if there is none, or sqlglot is imported anyway."""
    global _imported_here
    if package() in sys.modules:
        return None
    found = _read(text)
    if found is None:
        _imported_here = True
    return found


def save(text: str, parsed: Parsed) -> None:
    """Save the parse of a text for other processes, unless this process has saved enough."""
    global _saved, _first_dialect
    if not _imported_here or _saved >= MAX_SAVED or len(text) > MAX_CHARACTERS:
        return
    dialect = _dialect()
    _first_dialect = _first_dialect or dialect
    if dialect != _first_dialect:
        return
    _saved += 1
    path = _path_of(text)
    if path is None or path.exists():
        return
    with contextlib.suppress(_CannotSave, RecursionError, OSError):
        data = _as_bytes(text, parsed)
        if repr(_parsed_of(text, data)) == repr(parsed):
            if _saved == 1:
                _remove_old(path.parent)
            write_whole(path, data)


def _read(text: str) -> Parsed | None:
    path = _path_of(text) if len(text) <= MAX_CHARACTERS else None
    if path is None:
        return None
    try:
        return _parsed_of(text, path.read_bytes())
    except (OSError, RecursionError):
        return None


def _path_of(text: str) -> Path | None:
    """Return the file of a text; None if nothing can be saved."""
    state = _state_of_sources()
    folder = None if state is None else _folder()
    if folder is None:
        return None
    from hashlib import sha256

    name = sha256(f"{state}\0{text}".encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return folder / f"parse_{name}.json"


def _folder() -> Path | None:
    own = sys.modules["skipstone"].__version__
    version = f"{own}-py{sys.version_info.major}{sys.version_info.minor}"
    found = folder_or_reason(FOLDER, version)
    return found if isinstance(found, Path) else None


@functools.cache
def _state_of_sources() -> str | None:
    """Return names, sizes and times of all sources that decide how a text is parsed.

    None if some of them are not files, cannot be listed, or have just changed.
    """
    own, parser = Path(sys.modules["skipstone"].__file__ or "").parent, source_folder()
    if parser is None:
        return None
    try:
        tops = [*(own / f for f in OWN_SOURCES), parser]
        each = [[(e.path, e.stat()) for e in _sources_below(str(top))] for top in tops]
    except OSError:
        return None
    files = [file for found in each for file in found]
    if (
        not all(each)
        or max(max(s.st_mtime_ns, s.st_ctime_ns) for _, s in files) > IMPORTED - SETTLED
    ):
        return None
    return "\n".join(f"{path} {s.st_size} {s.st_mtime_ns}" for path, s in files)


def _dialect() -> frozenset[tuple[str, str, int, int]]:
    """Return what changes if a program changes how sqlglot reads Spark's SQL."""
    spark = sqlglot("dialects.spark").Spark
    dialect = spark()
    return frozenset(
        (f"{c.__module__}.{c.__qualname__}", name, id(v), len(v) if isinstance(v, Sized) else 0)
        for top in (spark, dialect.tokenizer_class, type(dialect.parser()))
        for c in top.__mro__
        if c.__module__.partition(".")[0] == package()
        for name, v in list(vars(c).items())
    )


def _sources_below(top: str) -> list[os.DirEntry[str]]:
    """Return the sources in a folder and below it, by path."""
    found = []
    with os.scandir(top) as entries:
        for e in entries:
            if e.is_dir():
                found += _sources_below(e.path)
            elif e.name.endswith((".py", ".so", ".pyd")):
                found.append(e)
    return sorted(found, key=lambda e: e.path)


def _remove_old(folder: Path) -> None:
    """Remove the oldest half of the saved parses, if there are too many."""
    files = [p for p in folder.iterdir() if p.name.startswith("parse_")]
    if len(files) > MAX_FILES:
        for path in sorted(files, key=lambda p: p.stat().st_mtime)[: len(files) // 2]:
            path.unlink(missing_ok=True)


class _CannotSave(Exception):
    """A tree holds a value that has no form in a file."""


def _as_bytes(text: str, parsed: Parsed) -> bytes:
    import json
    from hashlib import sha256

    node, positions = parsed
    saved = {
        "text": text,
        "node": _written(node),
        "positions": [[*name.parts, at] for name, at in positions.items()],
    }
    data = json.dumps(saved).encode()
    return sha256(data).digest() + data


def _parsed_of(text: str, data: bytes) -> Parsed | None:
    import json
    from hashlib import sha256

    digest, rest = data[:DIGEST], data[DIGEST:]
    if sha256(rest).digest() != digest:
        return None
    saved = json.loads(rest)
    node = _read_value(saved["node"])
    if saved["text"] != text or not isinstance(node, Node):
        return None
    return node, {Name(tuple(parts)): at for *parts, at in saved["positions"]}


def _written(value: object) -> Any:
    """Return a value of a tree as JSON has it; what JSON lacks is an object of one entry."""
    match value:
        case None | bool() | str():
            return value
        case int() if type(value) is int:
            return value
        case float():
            return {"float": value.hex()}
        case bytes():
            return {"bytes": value.hex()}
        case tuple() if type(value) is tuple:
            return [_written(v) for v in value]
        case Name():
            return {"name": [*value.parts]}
        case ty.DType():
            return {"type": _written(_fields_of(value))}
        case Node() if value.op is not Op.UNKNOWN:
            fields = value.args, value.value, value.dtype
            return {"node": [value.op.value, *map(_written, fields)]}
        case _:
            raise _CannotSave(type(value).__name__)


def _fields_of(t: ty.DType) -> tuple[object, ...]:
    return (
        *(t.kind.value, t.bits, t.precision, t.scale, t.unit, t.zoned, t.name),
        *(t.element, t.entries),
    )


def _read_value(value: Any) -> Any:
    """Return the value that `_written` wrote."""
    if isinstance(value, list):
        return tuple([_read_value(v) for v in value])
    if not isinstance(value, dict):
        return value
    ((kind, inner),) = value.items()
    match kind:
        case "float":
            return float.fromhex(inner)
        case "bytes":
            return bytes.fromhex(inner)
        case "name":
            return Name(tuple(inner))
        case "type":
            first, *rest = map(_read_value, inner)
            return ty.DType(ty.Kind(first), *rest)
        case _:
            op, *rest = inner
            return Node(Op(op), *map(_read_value, rest))
