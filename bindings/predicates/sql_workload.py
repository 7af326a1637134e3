"""Read workloads: conditions, and the parts of whole queries that concern one table.

sqlglot parses the queries. Each SELECT that reads the table gives one condition: the conjuncts of
its WHERE, and of the ON of its inner joins, whose columns all belong to the table.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Any, Final, NamedTuple

from skipstone.kernels.run.first_import import first_import

_QUERY: Final = re.compile(r"\s*(?:\(\s*)*(?:SELECT|WITH|FROM|INSERT|CREATE|MERGE)\b", re.IGNORECASE)


class Unread(NamedTuple):
    """A part of a workload that could not be used, and why."""

    text: str
    why: str


class Read(NamedTuple):
    """What was read of a workload.

    Attributes:
        conditions: Conditions on the table, as Spark SQL, in order; repeated ones are repeated.
        unread: What could not be used.
        full_reads: Queries that read the table without a condition that concerns it.
    """

    conditions: list[str]
    unread: list[Unread]
    full_reads: list[str]


def split_workload(text: str) -> list[str]:
    """Return the conditions and statements of a workload file.

    Text with a semicolon, or that begins with SELECT or WITH, holds statements that semicolons
    separate. Other text holds a condition in each line. Comments are left out.

    Example:
        >>> split_workload("x = 1\\n-- a comment\\ny = ';' AND z = 2")
        ['x = 1', "y = ';' AND z = 2"]
        >>> split_workload("SELECT a\\nFROM t WHERE x = 1; SELECT 1")
        ['SELECT a\\nFROM t WHERE x = 1', 'SELECT 1']
    """
    plain = _COMMENT.sub(lambda m: "" if m[1] or m[2] else m[0], text)
    ends = [m.start() for m in _SEMICOLON.finditer(plain) if m[1]]
    if ends or _QUERY.match(plain):
        starts = [0, *(end + 1 for end in ends)]
        parts = [plain[a:b] for a, b in zip(starts, [*ends, len(plain)], strict=True)]
    else:
        parts = plain.splitlines()
    return [part.strip() for part in parts if part.strip()]


_QUOTED: Final = r"""'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.)*"|`[^`]*`"""
_COMMENT: Final = re.compile(rf"{_QUOTED}|(--[^\r\n]*)|(/\*.*?\*/)", re.DOTALL)
_SEMICOLON: Final = re.compile(rf"{_QUOTED}|(;)", re.DOTALL)


def read_workload(text: str, columns: Collection[str], name: str | None = None) -> Read:
    """Read the conditions that a workload has for one table.

    Args:
        text: The workload: a condition in each line, or statements that semicolons separate.
        columns: The names of the table's top-level columns.
        name: The table's name in the queries; None: a condition belongs to the table if it has all
            of the condition's columns.
    """
    known = {c.lower() for c in columns}
    out = Read([], [], [])
    for part in split_workload(text):
        if _QUERY.match(part):
            _read_query(part, known, name, out)
        else:
            out.conditions.append(part)
    return out


def _read_query(text: str, known: Collection[str], name: str | None, out: Read) -> None:
    first_import("sqlglot.dialects.spark")
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    try:
        trees = [t for t in sqlglot.parse(text, dialect="spark") if t is not None]
    except (SqlglotError, RecursionError) as e:
        out.unread.append(Unread(text, f"cannot be read as SQL ({_first_line(e)})"))
        return
    reads = 0
    for tree in trees:
        ctes = {c.alias_or_name.lower() for c in tree.find_all(exp.CTE)}
        for select in tree.find_all(exp.Select):
            tables = {
                t.alias_or_name.lower(): t
                for t in _sources(select)
                if isinstance(t, exp.Table) and t.name.lower() not in ctes
            }
            own = {a for a, t in tables.items() if name is None or t.name.lower() == name.lower()}
            if not own:
                continue
            mine: list[str] = []
            for conjunct in _conjuncts(select):
                if _concerns(conjunct, known, set(tables), own, alone=len(own) == 1 and name):
                    if conjunct.find(exp.Query):
                        why = "holds a subquery, whose values are not known before it runs"
                        out.unread.append(Unread(conjunct.sql("spark"), why))
                    else:
                        mine.append(_unqualified(conjunct, own).sql("spark"))
            if mine:
                out.conditions.append(" AND ".join(f"({c})" if len(mine) > 1 else c for c in mine))
            elif name is not None or _reads_only(select, known, tables):
                out.full_reads.append(text)
            else:
                continue
            reads += 1
    if not reads:
        of = f"table {name}" if name else "columns of the table"
        out.unread.append(Unread(text, f"no SELECT in it has a condition on {of}"))


def _sources(select: Any) -> Iterator[Any]:
    """Yield what a SELECT reads: its FROM and its joins."""
    source = select.args.get("from_") or select.args.get("from")
    if source is not None:
        yield source.this
    for join in select.args.get("joins") or ():
        yield join.this


def _conjuncts(select: Any) -> Iterator[Any]:
    """Yield the conjuncts of WHERE and of inner joins' ON."""
    where = select.args.get("where")
    conditions = [] if where is None else [where.this]
    conditions += [
        join.args["on"]
        for join in select.args.get("joins") or ()
        if join.args.get("on") is not None
        and not join.args.get("side")
        and join.args.get("kind") in (None, "", "INNER")
    ]
    for condition in conditions:
        yield from _flat(condition)


def _flat(condition: Any) -> Iterator[Any]:
    from sqlglot import exp

    stack = [condition]
    while stack:
        top = stack.pop()
        if isinstance(top, exp.And):
            stack += [top.args["expression"], top.args["this"]]
        elif isinstance(top, exp.Paren) and isinstance(top.this, exp.And):
            stack.append(top.this)
        else:
            yield top


def _concerns(
    conjunct: Any, known: Collection[str], aliases: set[str], own: set[str], *, alone: Any
) -> bool:
    """Return True if all columns of a conjunct, and at least one, belong to the table."""
    from sqlglot import exp

    columns = list(conjunct.find_all(exp.Column))
    outer = [c for c in columns if c.find_ancestor(exp.Query) is conjunct.find_ancestor(exp.Query)]

    def owned(c: Any) -> bool:
        first = c.parts[0].name.lower()
        if len(c.parts) > 1 and first in aliases:
            return first in own and c.parts[1].name.lower() in known
        return first in known

    return bool(outer) and all(owned(c) for c in outer)


def _unqualified(conjunct: Any, own: set[str]) -> Any:
    """Return a conjunct whose columns are named without their table."""
    from sqlglot import exp

    def strip(node: Any) -> Any:
        if isinstance(node, exp.Column):
            parts = node.parts
            if len(parts) > 1 and parts[0].name.lower() in own:
                rest = [p.copy() for p in parts[1:]]
                made: Any = exp.Column(this=rest[0])
                for field in rest[1:]:
                    made = exp.Dot(this=made, expression=field)
                return made
        return node

    return conjunct.copy().transform(strip)


def _reads_only(select: Any, known: Collection[str], tables: dict[str, Any]) -> bool:
    """Return True if a SELECT reads one table, and names only columns that the table has."""
    from sqlglot import exp

    columns = list(select.find_all(exp.Column))
    return len(tables) == 1 and bool(columns) and all(c.name.lower() in known for c in columns)


def _first_line(e: BaseException) -> str:
    return re.sub(r"\x1b\[\d+m", "", str(e)).strip().splitlines()[0][:120] if str(e) else "?"
