"""The manifest of shards: their files, in order, with the identity of each.

The manifest is written last and takes its name when it is complete, so shards become visible all at
once. It holds the identity of every file (store/layout.py): a file that was damaged, replaced or
exchanged with another is detected before it is used.
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
from skipstone.ir.errors import StatisticsError, describe_error

NAME: Final = "shards.json"
VERSION: Final = 1
STEM: Final = re.compile(r"(shard|summary)-[0-9a-f]{16}-[0-9a-f]{16}")
# Files that a save creates, including unfinished ones.
SHARD_FILES: Final = re.compile(
    rf"({STEM.pattern}\.(stats|about)|{re.escape(NAME)})(\.[0-9a-f]{{8}})?(\.tmp)?"
)
SAVE_AGAIN: Final = "save the shards again"


@dataclass(frozen=True, slots=True)
class Shard:
    """The manifest's entry for one shard: a file with statistics of neighbouring containers.

    Attributes:
        stem: The file's name without its ending.
        rows: The number of containers.
        size: The bytes of the file.
        identity: The file's `OpenedFile.identity` (store/layout.py).
        no_empty: True if no container is known to be empty.
        about: The checksum of the table that describes the containers, in a file beside it; None:
            there is no such table.
    """

    stem: str
    rows: int
    size: int
    identity: int
    no_empty: bool
    about: int | None

    @property
    def file(self) -> str:
        """The name of the file of statistics."""
        return f"{self.stem}.stats"

    @property
    def about_file(self) -> str:
        """The name of the file that describes the containers."""
        return f"{self.stem}.about"

    @property
    def files(self) -> tuple[str, ...]:
        """The names of both files, or of the one that exists."""
        return (self.file,) if self.about is None else (self.file, self.about_file)


@dataclass(frozen=True)
class Manifest:
    """The description of all shards.

    Attributes:
        schema: The table's columns.
        shards: In the order of the containers.
        summary: The stem and the identity of a file of statistics with one container per shard.
        always_holds: True if a shard's verdict ALWAYS holds for its containers. False: their value
            lists and bloom filters may contradict it.
        about: The columns that describe containers; None if there are none.
    """

    schema: pa.Schema
    shards: tuple[Shard, ...]
    summary: tuple[str, int] | None
    always_holds: bool
    about: pa.Schema | None

    @cached_property
    def starts(self) -> npt.NDArray[np.int64]:
        """The position of each shard's first container, and n; int64, shape (shards + 1,)."""
        return np.cumsum([0, *(s.rows for s in self.shards)], dtype=np.int64)

    @property
    def files(self) -> set[str]:
        """The names of all files in the manifest."""
        return {file for s in self.shards for file in s.files} | (
            {f"{self.summary[0]}.stats"} if self.summary else set()
        )

    def dump(self) -> bytes:
        """Return the manifest as JSON."""
        body = {
            "schema": _text(self.schema),
            "about": None if self.about is None else _text(self.about),
            "containers": int(self.starts[-1]),
            "certain": self.always_holds,
            "summary": None
            if self.summary is None
            else [self.summary[0], f"{self.summary[1]:016x}"],
            "shards": [
                [
                    s.stem,
                    s.rows,
                    s.size,
                    f"{s.identity:016x}",
                    s.no_empty,
                    None if s.about is None else f"{s.about:016x}",
                ]
                for s in self.shards
            ],
        }
        return json.dumps(
            {"skipstone shards": VERSION, "sha256": _digest(body), "manifest": body}, indent=1
        ).encode()


def parse(path: str, data: bytes) -> Manifest:
    """Parse a manifest that `dump` wrote.

    Args:
        path: The file, for errors.
        data: Its bytes.

    Raises:
        StatisticsError: the manifest is damaged, malformed or of another version.
    """
    try:
        document = json.loads(data)
        version = document["skipstone shards"]
    except MALFORMED as e:
        raise wrong(
            path, f"holds no manifest of shards, or is torn ({describe_error(e)})", SAVE_AGAIN
        ) from e
    if version != VERSION:
        raise wrong(
            path,
            f"has format version {version!r:.20}; this Skipstone reads version {VERSION}",
            SAVE_AGAIN,
        )
    try:
        if document["sha256"] != _digest(document["manifest"]):
            raise wrong(path, "is damaged: its checksum differs from the saved one", SAVE_AGAIN)
        return _read(path, document["manifest"])
    except StatisticsError:
        raise
    except (*MALFORMED, pa.ArrowException, OSError) as e:
        raise wrong(path, f"is malformed ({describe_error(e)})", SAVE_AGAIN) from e


def _read(path: str, body: dict[str, Any]) -> Manifest:
    about = None if body["about"] is None else _schema(body["about"])
    shards = tuple(_shard(entry, about is not None) for entry in body["shards"])
    entry = body["summary"]
    summary = None if entry is None else (_stem(entry[0]), _identity(entry[1]))
    manifest = Manifest(_schema(body["schema"]), shards, summary, body["certain"], about)
    stems = {s.stem for s in shards}
    if type(manifest.always_holds) is not bool or len(stems) != len(shards):
        raise ValueError(
            f"certain is {manifest.always_holds!r}, and "
            f"{len(shards)} shards have {len(stems)} names"
        )
    if int(manifest.starts[-1]) != body["containers"]:
        raise wrong(
            path,
            f"has shards of {manifest.starts[-1]} containers, but states "
            f"{body['containers']!r:.30} containers",
            SAVE_AGAIN,
        )
    return manifest


def _shard(entry: list[Any], about: bool) -> Shard:
    stem, rows, size, identity, no_empty, checksum = entry
    integers = type(rows) is int and type(size) is int
    in_range = integers and 0 < rows <= MAX_CONTAINERS and size >= 0
    if not in_range or type(no_empty) is not bool or (checksum is not None) != about:
        raise ValueError(f"a shard is {entry!r}")
    return Shard(
        _stem(stem),
        rows,
        size,
        _identity(identity),
        no_empty,
        None if checksum is None else _identity(checksum),
    )


def _stem(text: str) -> str:
    """Return a file's stem if it is one that a save creates, and no path to another folder."""
    if not STEM.fullmatch(text):
        raise ValueError(f"a file is named {text!r}")
    return text


def _identity(text: str) -> int:
    """Return a checksum from its 16 hexadecimal digits."""
    if not re.fullmatch("[0-9a-f]{16}", text):
        raise ValueError(f"a checksum is {text!r}")
    return int(text, 16)


def _digest(body: Any) -> str:
    """Return the SHA-256 of a manifest's body."""
    return hashlib.sha256(
        json.dumps(body, sort_keys=True, separators=(",", ":")).encode()
    ).hexdigest()


def _text(schema: pa.Schema) -> str:
    return base64.b64encode(schema.serialize().to_pybytes()).decode()


def _schema(text: str) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text, validate=True)))
