"""The manifest of shards: which files there are, in which order, and what tells them from any others.

It is the last file that is written, and takes its name when it is whole: shards are there when it says
so. It holds the identity of every file (store/layout.py), so a file that was damaged, replaced or
exchanged with another is noticed before it answers anything.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skipstone.bindings.statistics.store.layout import MALFORMED, MAX_CONTAINERS, wrong
from skipstone.ir.cached import cached_property
from skipstone.ir.errors import StatisticsError

NAME: Final = "shards.json"
VERSION: Final = 1
STEM: Final = re.compile(r"(shard|summary)-[0-9a-f]{16}-[0-9a-f]{16}")
# Files that saving makes, those that were not finished included.
OURS: Final = re.compile(
    rf"({STEM.pattern}\.(stats|about)|{re.escape(NAME)})(\.[0-9a-f]{{8}})?(\.tmp)?"
)
AGAIN: Final = "save the shards again"


@dataclass(frozen=True, slots=True)
class Shard:
    """A file of statistics of some neighbouring containers.

    Attributes:
        stem: Its name without the ending.
        rows: How many containers.
        size: Its bytes.
        identity: What `store.layout.open_file` finds.
        filled: Whether none of its containers is known to be empty.
        about: The checksum of the table that says what the containers are, in a file beside it; None: there is none.
    """

    stem: str
    rows: int
    size: int
    identity: int
    filled: bool
    about: int | None

    @property
    def file(self) -> str:
        """The name of its file."""
        return f"{self.stem}.stats"

    @property
    def about_file(self) -> str:
        """The name of the file that says what its containers are."""
        return f"{self.stem}.about"

    @property
    def files(self) -> tuple[str, ...]:
        """All of these."""
        return (self.file,) if self.about is None else (self.file, self.about_file)


@dataclass(frozen=True)
class Manifest:
    """What there is of shards.

    Attributes:
        schema: The table's columns.
        shards: In the order of the containers.
        summary: A file of statistics whose containers are the shards: its stem and its identity.
        certain: Whether ALWAYS of a shard is that of its containers: value lists and bloom filters may say otherwise.
        about: The columns that say what containers are; None: there are none.
    """

    schema: pa.Schema
    shards: tuple[Shard, ...]
    summary: tuple[str, int] | None
    certain: bool
    about: pa.Schema | None

    @cached_property
    def starts(self) -> npt.NDArray[np.int64]:
        """Where each shard's containers start, and their number at last; int64, shape (shards + 1,)."""
        return np.cumsum([0, *(s.rows for s in self.shards)], dtype=np.int64)

    @property
    def files(self) -> set[str]:
        """The files that it speaks of."""
        return {file for s in self.shards for file in s.files} | (
            {f"{self.summary[0]}.stats"} if self.summary else set()
        )

    def dump(self) -> bytes:
        """The manifest as JSON."""
        body = {
            "schema": _text(self.schema),
            "about": None if self.about is None else _text(self.about),
            "containers": int(self.starts[-1]),
            "certain": self.certain,
            "summary": None
            if self.summary is None
            else [self.summary[0], f"{self.summary[1]:016x}"],
            "shards": [
                [
                    s.stem,
                    s.rows,
                    s.size,
                    f"{s.identity:016x}",
                    s.filled,
                    None if s.about is None else f"{s.about:016x}",
                ]
                for s in self.shards
            ],
        }
        return json.dumps(
            {"skipstone shards": VERSION, "sha256": _digest(body), "manifest": body}, indent=1
        ).encode()


def parse(path: str, data: bytes) -> Manifest:
    """The manifest that `dump` wrote.

    Raises:
        StatisticsError: it is not that, to the last letter, or says what cannot be.
    """
    try:
        told = json.loads(data)
        version = told["skipstone shards"]
    except MALFORMED as e:
        raise wrong(
            path, f"holds no manifest of shards, or is torn ({type(e).__name__}: {e})"[:300], AGAIN
        ) from e
    if version != VERSION:
        raise wrong(
            path,
            f"has format version {version!r:.20}, and this Skipstone reads version {VERSION}",
            AGAIN,
        )
    try:
        if told["sha256"] != _digest(told["manifest"]):
            raise wrong(path, "is damaged: it has another checksum than when it was saved", AGAIN)
        return _read(path, told["manifest"])
    except StatisticsError:
        raise
    except (*MALFORMED, pa.ArrowException, OSError) as e:
        raise wrong(path, f"says what cannot be ({type(e).__name__}: {e})"[:300], AGAIN) from e


def _read(path: str, body: dict[str, Any]) -> Manifest:
    about = None if body["about"] is None else _schema(body["about"])
    shards = tuple(_shard(entry, about is not None) for entry in body["shards"])
    told = body["summary"]
    summary = None if told is None else (_stem(told[0]), _identity(told[1]))
    found = Manifest(_schema(body["schema"]), shards, summary, body["certain"], about)
    if type(found.certain) is not bool or len({s.stem for s in shards}) != len(shards):
        raise ValueError(
            f"certain is {found.certain!r}, and {len(shards)} shards have {len({s.stem for s in shards})} names"
        )
    if int(found.starts[-1]) != body["containers"]:
        raise wrong(
            path,
            f"has shards of {found.starts[-1]} containers, and says that there are {body['containers']!r:.30}",
            AGAIN,
        )
    return found


def _shard(entry: list[Any], about: bool) -> Shard:
    stem, rows, size, identity, filled, told = entry
    whole = type(rows) is int and type(size) is int and 0 < rows <= MAX_CONTAINERS and size >= 0
    if not whole or type(filled) is not bool or (told is not None) != about:
        raise ValueError(f"a shard is {entry!r}")
    return Shard(
        _stem(stem),
        rows,
        size,
        _identity(identity),
        filled,
        None if told is None else _identity(told),
    )


def _stem(text: str) -> str:
    """A name that saving gives: never a path that leads elsewhere."""
    if not STEM.fullmatch(text):
        raise ValueError(f"a file is named {text!r}")
    return text


def _identity(text: str) -> int:
    if not re.fullmatch("[0-9a-f]{16}", text):
        raise ValueError(f"a checksum is {text!r}")
    return int(text, 16)


def _digest(body: Any) -> str:
    return hashlib.sha256(
        json.dumps(body, sort_keys=True, separators=(",", ":")).encode()
    ).hexdigest()


def _text(schema: pa.Schema) -> str:
    return base64.b64encode(schema.serialize().to_pybytes()).decode()


def _schema(text: str) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text, validate=True)))
