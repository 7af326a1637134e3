"""Compile a file's Avro schema into a program for the loops that read its records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from skipstone.kernels.decode.avro_loops import ARRAY, BYTES, DEPTH, END, FIXED, LONG, UNION

WIDTHS: Final = {"boolean": 1, "float": 4, "double": 8}
# Most operations of a program: some 2,000 partition fields.
MAX_STEPS: Final = 10_000


class Unsupported(Exception):
    """The schema has a shape that is not supported here; another decoder may support it."""


@dataclass(frozen=True, slots=True)
class Slot:
    """The slots that receive the values of one field.

    Attributes:
        kind: Avro's type: "int", "long", "string", "bytes", "fixed", "boolean", "float", "double",
            or "array".
        at: The number of the slot. It receives a number, the start of a value's bytes, or the start
            of an array. For strings and bytes the next slot receives the number of bytes.
        present: The slot that says if there is a value; None if there always is one.
        width: Bytes of a value, if their number is fixed.
        described: The type as the schema has it.
        texts: For a map, True if its values are bytes; None if `entries` cannot read the array.
    """

    kind: str
    at: int
    present: int | None
    width: int
    described: Any
    texts: bool | None = None


@dataclass(slots=True)
class Program:
    """The steps that read the records of a schema.

    Attributes:
        rows: (operation, slot, value, target) of each step, int64.
        slots: The number of slots.
        fields: By field id, the fields of records outside arrays.
        records: By field id of a nested record, the ids of its fields.
        width: The least bytes of a record.
    """

    rows: npt.NDArray[np.int64]
    slots: int
    fields: Mapping[int, Slot]
    records: Mapping[int, Sequence[int]]
    width: int


@dataclass(slots=True)
class _Writer:
    """Writes the steps of a program while it walks a schema."""

    steps: list[list[int]] = field(default_factory=list)
    slots: int = 0
    unused: Set[int] = frozenset()
    fields: dict[int, Slot] = field(default_factory=dict)
    records: dict[int, list[int]] = field(default_factory=dict)

    def take(self, count: int) -> int:
        self.slots += count
        return self.slots - count

    def step(self, op: int, slot: int, value: int = 0, target: int = 0) -> int:
        if len(self.steps) >= MAX_STEPS:
            raise Unsupported(f"the schema takes more than {MAX_STEPS} steps")
        self.steps.append([op, slot, value, target])
        return len(self.steps) - 1

    def record(self, described: Any, wanted: bool, depth: int) -> int:
        """Write the steps of a record's fields; return the least bytes that they take."""
        fields = described.get("fields")
        if not isinstance(fields, list):
            raise Unsupported("a record of the schema has no list of fields")
        total = 0
        for f in fields:
            if not isinstance(f, dict) or "type" not in f or not isinstance(f.get("name"), str):
                raise Unsupported("a field of the schema has no name or type")
            number = f.get("field-id")
            if type(number) is not int or (wanted and number in self.fields):
                raise Unsupported(
                    f"the field {f['name']!r:.100} of the schema has no id of its own"
                )
            total += self.value(
                f["type"], number if wanted and number not in self.unused else None, depth
            )
        return total

    def value(self, described: Any, number: int | None, depth: int) -> int:
        # The type of partition values whose source column was dropped. They are left out.
        if described in ("null", {"type": "null"}):
            return 0
        if not isinstance(described, list):
            return self.plain(described, number, depth, None)
        if described == ["null", "null"]:
            self.step(LONG, -1)  # the position in the union
            return 1
        if len(described) != 2 or "null" not in described:
            raise Unsupported(
                f"the schema has a union of {described!r:.100}; expected one of null and "
                "another type"
            )
        null = described.index("null")
        present = None if number is None else self.take(1)
        at = self.step(UNION, -1 if present is None else present, null)
        self.plain(described[1 - null], number, depth, present)
        self.steps[at][3] = len(self.steps)
        return 1

    def plain(self, described: Any, number: int | None, depth: int, present: int | None) -> int:
        kind = described.get("type") if isinstance(described, dict) else described
        if not isinstance(kind, str):
            raise Unsupported(f"the schema has the type {kind!r:.100}")
        if kind == "record":
            if present is not None:
                raise Unsupported("a record of the schema may be null")
            width = self.record(described, number is not None, depth + 1)
            if number is not None:
                self.records[number] = [f["field-id"] for f in described["fields"]]
            return width
        keep = number is not None
        if kind in ("int", "long"):
            slot, width = self.take(1) if keep else -1, 1
            self.step(LONG, slot)
        elif kind in ("string", "bytes"):
            slot, width = self.take(2) if keep else -1, 1
            self.step(BYTES, slot)
        elif kind in WIDTHS or kind == "fixed":
            size = described.get("size") if isinstance(described, dict) else None
            size = WIDTHS.get(kind, size)
            if type(size) is not int or not 0 < size <= 1 << 20:
                raise Unsupported(f"the schema has a fixed type of {size!r} bytes")
            width = size
            slot = self.take(1) if keep else -1
            self.step(FIXED, slot, width)
        elif kind == "array":
            return self.array(described, number, depth, present)
        else:
            raise Unsupported(f"the schema has the type {kind!r:.100}")
        if number is not None:
            self.fields[number] = Slot(kind, slot, present, width, described)
        return width

    def array(self, described: Any, number: int | None, depth: int, present: int | None) -> int:
        if not isinstance(described, dict):
            raise Unsupported("the schema has an array without items")
        if depth >= DEPTH:
            raise Unsupported("the schema is nested too deeply")
        slot = -1 if number is None else self.take(1)
        begin = self.step(ARRAY, slot)
        start = len(self.steps)
        items, pairs = described.get("items"), described.get("logicalType") == "map"
        if pairs != ("logicalType" in described) or not (
            pairs or isinstance(described.get("element-id"), int)
        ):
            raise Unsupported("the schema has an array that is neither a map nor a list with an id")
        if not self.value(items, None, depth + 1):
            raise Unsupported("the schema has an array of items that take no bytes")
        body = [step[0] for step in self.steps[start:]]
        self.steps[begin][3] = self.step(END, -1, 0, begin)
        if number is not None:
            pairs = (
                pairs
                and isinstance(items, dict)
                and items.get("type") == "record"
                and [f["name"] for f in items["fields"]] == ["key", "value"]
            )
            if pairs and len(body) == 2:
                texts = {(LONG, LONG): False, (LONG, BYTES): True}.get((body[0], body[1]))
            else:
                texts = None
            self.fields[number] = Slot("array", slot, present, 0, described, texts)
        return 1


def program_of(schema: Any, unused: Set[int] = frozenset()) -> Program:
    """Return the program of a schema whose fields have Iceberg's ids.

    Args:
        schema: The schema of a record, as parsed JSON. Fields of nested records are also found by
            their ids.
        unused: Ids of fields whose values are not stored.

    Raises:
        Unsupported: the schema has a shape that is not supported here.

    Example:
        >>> x = {"name": "x", "type": ["null", "long"], "field-id": 7}
        >>> program = program_of({"type": "record", "name": "r", "fields": [x]})
        >>> program.fields[7].kind, program.rows.tolist()
        ('long', [[3, 0, 0, 2], [0, 1, 0, 0]])
    """
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise Unsupported("the schema is not a record")
    writer = _Writer(unused=unused)
    try:
        width = writer.record(schema, True, 0)
    except RecursionError:
        raise Unsupported("the schema is nested too deeply") from None
    if not width:
        raise Unsupported("the schema's records take no bytes")
    return Program(
        np.array(writer.steps, np.int64).reshape(-1, 4),
        writer.slots,
        writer.fields,
        writer.records,
        width,
    )
