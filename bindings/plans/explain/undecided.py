"""Explain why the statistics of containers decide nothing about a conjunct."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from skipstone.bindings.plans.explain.unused import why_opaque
from skipstone.ir import compute as pc
from skipstone.ir.arrow import booleans_of
from skipstone.ir.functions.build import TRUTH, call_of, function_of
from skipstone.ir.like import decode
from skipstone.ir.node import Node, Op, Path, columns_of, not_understood, parts_of, show_path
from skipstone.ir.text import show
from skipstone.ir.types import STRING, TEXT, DType, Kind
from skipstone.kernels.pack.bounds import Given, Side, bounds_of
from skipstone.kernels.pack.planes import Mask, mask_of

if TYPE_CHECKING:
    from skipstone.bindings.statistics.statistics import Statistics

TRUNCATED: Final = (16, 32, 64)  # characters that Iceberg, Delta and Parquet's writers keep


class KeptBecause(enum.IntEnum):
    """The kinds of reasons for keeping a container, in the order in which one is chosen."""

    MATCHES = 0
    MISSING = 1
    NOT_UNDERSTOOD = 2
    UNBOUNDED = 3
    TRUNCATED = 4
    OVERLAP = 5
    TOGETHER = 6


@dataclass(frozen=True, slots=True)
class UndecidedReason:
    """A reason why containers are kept.

    Attributes:
        kind: Its kind.
        text: The reason.
        hint: What would prune more; "" if that is not known.
        path: The column whose statistics are missing.
        statistic: The missing statistic, for display: "bounds", "null counts".
    """

    kind: KeptBecause
    text: str
    hint: str = ""
    path: Path = ()
    statistic: str = ""


def undecided_reasons(
    part: Node, stats: Statistics, undecided: Mask
) -> Iterator[tuple[UndecidedReason, Mask]]:
    """Yield each reason why containers are undecided, with its containers; each container once."""
    rest = undecided.copy()
    reasons = _reasons(part, stats)
    while rest.any():
        reason, mask = next(reasons)
        if (found := rest & mask).any():
            yield reason, found
            rest &= ~mask


def _reasons(part: Node, stats: Statistics) -> Iterator[tuple[UndecidedReason, Mask]]:
    """Yield reasons, with the mask of containers that each explains; the last explains all."""
    every = np.ones(stats.num_containers, np.bool_)
    if forms := not_understood(part):
        first = forms[0]
        hint = f"{first.what}: {first.why}{f'; {first.hint}' if first.hint else ''}"
        text = "the form is not understood"
        yield UndecidedReason(KeptBecause.NOT_UNDERSTOOD, text, hint), every
    null_tests = _null_tests(part)
    for path, dtype in _nested(part):
        name = show_path(path)
        if path in null_tests:
            text = f"no null counts of {name}"
            hint = "Parquet's footers count only the NULLs among the elements of lists and maps"
        elif stats.bounds_elements and parts_of(dtype):
            continue
        else:
            text = f"{name} is {dtype}, whose values no statistics bound"
            hint = "a separate column of single values, such as its size, would prune"
        if not _knows_nulls(stats, path).any():
            yield UndecidedReason(KeptBecause.UNBOUNDED, text, hint), every
    for path in columns_of(part):
        known = _knows_nulls(stats, path) if path in null_tests else _knows_bounds(stats, path)
        what = "null counts" if path in null_tests else "bounds"
        text = f"no {what} of {show_path(path)}"
        yield UndecidedReason(KeptBecause.MISSING, text, "", path, what), ~known
    if (unbounded := _unbounded(part)) is not None:
        yield unbounded, every
    for path in _compared_text(part):
        for length in TRUNCATED:
            yield _truncated(path, length), _share_prefix(stats, path, length)
    names = ", ".join(f"`{show_path(path)}`" for path in columns_of(part))
    hint = f"ranges get narrower if rows are sorted or clustered by {names}" if names else ""
    yield UndecidedReason(KeptBecause.OVERLAP, "the bounds overlap the condition", hint), every


def _nested(part: Node) -> list[tuple[Path, DType]]:
    """Return the lists, maps and other columns without an order that a conjunct reads."""
    return [
        (n.value, n.dtype)
        for n in dict.fromkeys(part.walk())
        if n.op is Op.COLUMN
        and isinstance(n.value, tuple)
        and n.dtype is not None
        and n.dtype.kind is Kind.OTHER
    ]


def _null_tests(part: Node) -> set[Path]:
    """Return the columns that are only tested for NULL, so that their null counts decide."""
    tested = {n.args[0] for n in part.walk() if n.op is Op.IS_NULL and n.args[0].op is Op.COLUMN}
    uses = [n for n in part.walk() if n.op is Op.COLUMN]
    within = [n.args[0] for n in part.walk() if n.op is Op.IS_NULL]
    return {
        c.value for c in tested if isinstance(c.value, tuple) and uses.count(c) == within.count(c)
    }


def _knows_bounds(stats: Statistics, path: Path) -> Mask:
    """Return the mask of containers that have a usable bound of a column, or no value in it.

    Those of an array are the bounds of its elements; of a map, those of its keys or values.
    """
    leaf = stats.leaf(path)
    known = np.zeros(stats.num_containers, np.bool_)
    if leaf is None:
        return known
    for part, dtype in parts_of(leaf.dtype).items():
        known |= _knows_bounds_of(stats, (*path, *part), dtype)
    return known if parts_of(leaf.dtype) else _knows_bounds_of(stats, path, leaf.dtype)


def _knows_bounds_of(stats: Statistics, path: Path, dtype: DType) -> Mask:
    raw = stats.raw(path)
    known = ~mask_of(stats.column(path, dtype).may_hold_value, stats.num_containers)
    ends: tuple[tuple[Given | None, Side], ...] = ((raw.min, "min"), (raw.max, "max"))
    for array, side in ends:
        bounds = None if array is None else bounds_of(array, dtype, side)
        if bounds is not None:
            known |= bounds.mask
    return known


def _knows_nulls(stats: Statistics, path: Path) -> Mask:
    counts = stats.raw(path).null_count
    if counts is None:
        return np.zeros(stats.num_containers, np.bool_)
    return booleans_of(pc.is_valid(counts))


def _unbounded(part: Node) -> UndecidedReason | None:
    """Return the reason if a scalar of a conjunct cannot be bounded; None if all can."""
    for n in part.walk():
        if n.op is Op.LIKE and isinstance(n.args[1].value, bytes) and isinstance(n.value, str):
            pattern = decode(n.args[1].value.decode("utf-8", "replace"), n.value)
            if pattern is not None and not pattern.prefix:
                hint = "a pattern with a literal start, such as 'ab%', prunes"
                return UndecidedReason(KeptBecause.UNBOUNDED, f"{show(n)} cannot be bounded", hint)
        if n.op is not Op.CALL or not isinstance(n.value, tuple) or n.value[0] == TRUTH:
            continue
        call, is_text = call_of(n), n.dtype is not None and n.dtype.kind in TEXT
        if call.name in ("cast", "try_cast") and call.types[0] == STRING and not is_text:
            hint = "texts are not in the order of numbers and times; "
            hint += f"compare `{show(n.args[0])}` with text, such as '5'"
            return UndecidedReason(KeptBecause.UNBOUNDED, f"{show(n)} cannot be bounded", hint)
        if opaque := why_opaque(n):
            return UndecidedReason(KeptBecause.UNBOUNDED, f"{show(n)}: {opaque[0]}", opaque[1])
        function = function_of(call.name)
        if function is None or not (function.monotone or function.interval):
            names = ", ".join(f"`{show_path(path)}`" for path in columns_of(n))
            hint = f"compare {names} itself" if "," not in names else f"compare {names} themselves"
            return UndecidedReason(KeptBecause.UNBOUNDED, f"{show(n)} cannot be bounded", hint)
    return None


def _compared_text(part: Node) -> list[Path]:
    return [
        n.value
        for n in dict.fromkeys(part.walk())
        if n.op is Op.COLUMN
        and n.dtype is not None
        and n.dtype.kind is Kind.STRING
        and isinstance(n.value, tuple)
    ]


def _share_prefix(stats: Statistics, path: Path, length: int) -> Mask:
    """Return where both bounds of a text seem cut after some characters that they share.

    A maximum that was cut has its last character raised, or one more.
    """
    raw = stats.raw(path)
    if raw.min is None or raw.max is None:
        return np.zeros(stats.num_containers, np.bool_)
    try:
        low, high = (a.cast(pa.large_string()) for a in (raw.min, raw.max))
        raised = pa.array([length, length + 1], pa.int64())
        of_length = pc.and_(
            pc.equal(pc.utf8_length(low), length),
            pc.is_in(pc.utf8_length(high).cast(pa.int64()), value_set=raised),
        )
        prefixes = (pc.utf8_slice_codeunits(a, 0, length - 1) for a in (low, high))
        same = pc.and_(of_length, pc.equal(*prefixes)).fill_null(False)
    except pa.ArrowException:  # a text that is not UTF-8
        return np.zeros(stats.num_containers, np.bool_)
    return np.asarray(same.to_numpy(zero_copy_only=False), np.bool_)


def _truncated(path: Path, length: int) -> UndecidedReason:
    name = show_path(path)
    return UndecidedReason(
        KeptBecause.TRUNCATED,
        f"bounds of {name} truncated to {length} characters share a prefix",
        f"write longer bounds of `{name}`, or compare a column whose values differ earlier",
    )
