"""Questions to an engine and its answers, in one form for all engines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.power.files import Table
from bench.power.form import Form


class NoSuchForm(Exception):
    """The engine does not support the form."""

    def __init__(self) -> None:
        super().__init__("no such form")


@dataclass(frozen=True)
class Answer:
    """An engine's answer for one form.

    Attributes:
        read: The number of row groups that it read.
        groups: Row groups that are certainly among them.
        exact: True if `groups` are all of them.
    """

    read: int
    groups: frozenset[int]
    exact: bool


# A form, its table, and the number of one group or None for all.
Questions = Sequence[tuple[Form, Table, int | None]]


def path_of(table: Table, group: int | None) -> Path:
    return table.path if group is None else table.groups[group]


def named(groups: Iterable[int]) -> Answer:
    found = frozenset(groups)
    return Answer(len(found), found, True)


def each(questions: Questions, ask: Any) -> list[Answer | str]:
    """Return the answer to each question, or why there is none."""
    out: list[Answer | str] = []
    for form, table, group in questions:
        try:
            out.append(ask(form, table, group))
        except Exception as e:  # engines raise errors of many classes; the report shows them
            out.append(reason(e))
    return out


def reason(e: BaseException) -> str:
    if isinstance(e, NoSuchForm):
        return str(e)
    return f"{type(e).__name__}: {str(e).strip().splitlines()[0] if str(e).strip() else ''}"[:200]


def text_of(form: Form, engine: str) -> str:
    text = form.text(engine)
    if not text:
        raise NoSuchForm
    return text
