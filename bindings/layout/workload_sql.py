"""Read workloads: conditions, and the parts of whole queries that concern one table.

sqlglot parses the queries. Each SELECT that reads the table gives one condition: the conjuncts of
its WHERE, and of the ON of its inner joins, whose columns all belong to the table.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Any, Final, NamedTuple

from skipstone.bindings.predicates.sqlglot_modules import FAULTS, sqlglot, text_of

_QUERY: Final = re.compile(
    r"\s*(?:\(\s*)*(?:SELECT|WITH|FROM|INSERT|CREATE|MERGE)\b", re.IGNORECASE
)


class Unread(NamedTuple):
    """A part of a workload that could not be used, and why."""

    text: str
    why: str


class ParsedWorkload(NamedTuple):
    """The parts of a workload that were understood, and the others.

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

    Semicolons separate statements. A statement that is not a query has a condition on each line. A
    condition continues on the next line if its line ends, or the next one begins, with AND, OR, a
    comma or an operator, or if a parenthesis is still open. Comments are left out.

    Example:
        >>> split_workload("x = 1\\n-- a comment\\ny = ';' AND z = 2")
        ['x = 1', "y = ';' AND z = 2"]
        >>> split_workload("SELECT a\\nFROM t WHERE x = 1; SELECT 1")
        ['SELECT a\\nFROM t WHERE x = 1', 'SELECT 1']
    """
    plain = _COMMENT.sub(lambda m: "" if m[1] or m[2] else m[0], text)
    ends = [m.start() for m in _SEMICOLON.finditer(plain) if m[1]]
    starts = [0, *(end + 1 for end in ends)]
    parts = [plain[a:b].strip() for a, b in zip(starts, [*ends, len(plain)], strict=True)]
    return [
        one
        for part in parts
        if part
        for one in ([part] if _QUERY.match(part) else _conditions_in(part))
    ]


def _conditions_in(text: str) -> list[str]:
    """Join the lines of conditions that are written over several lines."""
    out: list[str] = []
    for line in filter(None, map(str.rstrip, text.splitlines())):
        before = _QUOTES.sub("text", out[-1]) if out else ""
        if out and (
            before.count("(") > before.count(")")
            or before.count("'") % 2  # a text over two lines
            or _MORE_FOLLOWS.search(before)
            or _GOES_ON.match(line)
        ):
            out[-1] += f"\n{line}"
        else:
            out.append(line.strip())
    return out


_QUOTED: Final = r"""'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.)*"|`[^`]*`"""
_COMMENT: Final = re.compile(rf"{_QUOTED}|(--[^\r\n]*)|(/\*.*?\*/)", re.DOTALL)
_QUOTES: Final = re.compile(_QUOTED, re.DOTALL)
_MORE_FOLLOWS: Final = re.compile(
    r"(?:\b(?:AND|OR|NOT|IN|IS|LIKE|ILIKE|RLIKE|BETWEEN|ESCAPE)|[(,=<>!+\-*/%|])\s*$",
    re.IGNORECASE,
)
_GOES_ON: Final = re.compile(
    r"\s*(?:(?:AND|OR|IN|IS|LIKE|ILIKE|RLIKE|BETWEEN|ESCAPE)\b"
    r"|NOT\s+(?:IN|LIKE|ILIKE|RLIKE|BETWEEN)\b|[),=<>+*/%|])",
    re.IGNORECASE,
)
_SEMICOLON: Final = re.compile(rf"{_QUOTED}|(;)", re.DOTALL)


def read_workload(
    text: str, columns: Collection[str], name: str | None = None, folder: str | None = None
) -> ParsedWorkload:
    """Read the conditions that a workload has for one table.

    Args:
        text: The workload: a condition in each line, or statements that semicolons separate.
        columns: The names of the table's top-level columns.
        name: The table's name in the queries; None to find it by `folder`, or by its columns.
        folder: A name that the queries may have for the table.
    """
    known = {c.lower() for c in columns}
    out = ParsedWorkload([], [], [])
    for part in split_workload(text):
        if _QUERY.match(part):
            _read_query(part, known, name, folder, out)
        else:
            out.conditions.append(part)
    return out


def _read_query(
    text: str, known: Collection[str], name: str | None, folder: str | None, out: ParsedWorkload
) -> None:
    exp, spark = sqlglot(), sqlglot("dialects.spark").Spark()
    try:
        trees = [t for t in spark.parse(text) if t is not None]
    except (sqlglot("errors").SqlglotError, RecursionError, *FAULTS) as e:
        out.unread.append(Unread(text, f"cannot be read as SQL ({_first_line(e)})"))
        return
    before = len(out.conditions) + len(out.full_reads) + len(out.unread)
    for tree in trees:
        ctes = {c.alias_or_name.lower() for c in tree.find_all(exp.CTE)}
        for select in tree.find_all(exp.Select):
            tables = {
                t.alias_or_name.lower(): t.name.lower()
                for t in _sources(select)
                if isinstance(t, exp.Table) and t.name.lower() not in ctes
            }
            conjuncts = list(_conjuncts(select))
            own = _own_alias(select, tables, known, name, folder)
            if own is not None:
                _read_select(text, conjuncts, own, tables, known, out)
            elif (
                len(tables) > 1
                and name is None
                and any(
                    all(c.parts[-1].name.lower() in known for c in conjunct.find_all(exp.Column))
                    for conjunct in conjuncts
                )
            ):
                names = ", ".join(sorted(tables.values()))
                out.unread.append(Unread(text, f"which of {names} is this table? Give its name"))
    if len(out.conditions) + len(out.full_reads) + len(out.unread) == before:
        of = f"table {name}" if name else "columns of this table"
        out.unread.append(Unread(text, f"no SELECT in it has a condition on {of}"))


def _own_alias(
    select: Any, tables: dict[str, str], known: Collection[str], name: str | None,
    folder: str | None,
) -> str | None:  # fmt: skip
    """Return the alias under which a SELECT reads the table.

    Returns:
        "" if no column is named with its table, and their names alone say whose they are. None if
        the SELECT does not read the table, or if it is not clear under which alias.
    """
    exp = sqlglot()
    wanted = name if name is not None else folder
    named = [a for a, t in tables.items() if wanted is not None and t == wanted.lower()]
    if named:
        return named[0]
    if name is not None or not tables:
        return None
    used: dict[str, set[str]] = {}
    bare = set()
    for column in select.find_all(exp.Column):
        parts = [p.name.lower() for p in column.parts]
        if len(parts) > 1 and parts[0] in tables:
            used.setdefault(parts[0], set()).add(parts[1])
        else:
            bare.add(parts[0])
    if len(tables) == 1:
        (alias,) = tables
        return alias if (used.get(alias, set()) | bare) & set(known) else None
    fitting = [alias for alias, names in used.items() if names <= set(known)]
    if len(fitting) == 1:
        return fitting[0]
    return "" if not used and bare & set(known) else None


def _read_select(
    text: str,
    conjuncts: list[Any],
    own: str,
    tables: dict[str, str],
    known: Collection[str],
    out: ParsedWorkload,
) -> None:
    exp = sqlglot()
    mine: list[str] = []
    for conjunct in conjuncts:
        if not _concerns(conjunct, known, tables, own):
            continue
        if conjunct.find(exp.Query):
            why = "holds a subquery, whose values are not known before it runs"
            out.unread.append(Unread(text_of(conjunct), why))
            continue
        try:
            mine.append(_unqualified(conjunct, own).sql(dialect="spark"))
        except FAULTS:
            out.unread.append(Unread(text_of(conjunct), "cannot be written as SQL by sqlglot"))
    if mine:
        out.conditions.append(" AND ".join(f"({c})" if len(mine) > 1 else c for c in mine))
    else:
        out.full_reads.append(text)


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
    exp = sqlglot()
    stack = [condition]
    while stack:
        top = stack.pop()
        if isinstance(top, exp.And):
            stack += [top.args["expression"], top.args["this"]]
        elif isinstance(top, exp.Paren) and isinstance(top.this, exp.And):
            stack.append(top.this)
        else:
            yield top


def _concerns(conjunct: Any, known: Collection[str], tables: Collection[str], own: str) -> bool:
    """Return True if all columns of a conjunct, and at least one, belong to the table."""
    exp = sqlglot()
    around = conjunct.find_ancestor(exp.Query)
    columns = [c for c in conjunct.find_all(exp.Column) if c.find_ancestor(exp.Query) is around]

    def owned(c: Any) -> bool:
        parts = [p.name.lower() for p in c.parts]
        if len(parts) > 1 and parts[0] in tables:
            return parts[0] == own and parts[1] in known
        return parts[0] in known

    return bool(columns) and all(map(owned, columns))


def _unqualified(conjunct: Any, own: str) -> Any:
    """Return a conjunct whose columns are named without their table."""
    exp = sqlglot()

    def strip(node: Any) -> Any:
        if not isinstance(node, exp.Column) or len(node.parts) < 2:
            return node
        if node.parts[0].name.lower() != own:
            return node
        first, *fields = [p.copy() for p in node.parts[1:]]
        made: Any = exp.Column(this=first)
        for field in fields:
            made = exp.Dot(this=made, expression=field)
        return made

    return conjunct.copy().transform(strip)


def _first_line(e: BaseException) -> str:
    return re.sub(r"\x1b\[\d+m", "", str(e)).strip().splitlines()[0][:120] if str(e) else "?"
