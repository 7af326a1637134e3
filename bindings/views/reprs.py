"""The HTML that notebooks show of plans, tables, statistics and predicates.

It is cheap and of bounded size: it reads no file, and judges nothing again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from skipstone.bindings.html import escape, fragment
from skipstone.bindings.views.axis import shorten, show_value
from skipstone.bindings.views.groups import DECISIONS, Decision
from skipstone.ir import compute as pc
from skipstone.ir.errors import counted, shown_number, without_secrets
from skipstone.ir.node import not_understood, show_path
from skipstone.ir.outcome import Verdict
from skipstone.ir.types import NOTE, DType, from_arrow, leaves_of, to_axis

if TYPE_CHECKING:
    from skipstone.bindings.plans.plan import Plan
    from skipstone.bindings.predicates.predicate import PruningPredicate
    from skipstone.bindings.statistics.statistics import Statistics
    from skipstone.bindings.tables.table import Table

MAX_COLUMNS: Final = 12
MAX_SQL: Final = 1000  # the characters of a condition that are printed
MAX_NODES: Final = 2000  # of a condition with more nodes, only a summary is printed
MAX_DECODED: Final = 50_000  # containers whose statistics are decoded for a summary
COLOURS: Final[dict[Decision, str]] = {
    "pruned": "never",
    "limit": "limit",
    "filter": "maybe",
    "whole": "always",
}


def plan_html(plan: Plan) -> str:
    """Return a plan as HTML: how much of the table is read, and a bar of the verdicts."""
    size, n, kept = plan.sizes, len(plan.verdicts), len(plan.kept)
    rows: list[tuple[str, int | None, int | None]] = [("files", size.total.files, size.scan.files)]
    if plan.table.unit != "files":
        rows.append((plan.table.unit, n, kept))
    rows += [
        ("bytes", size.total.bytes, size.scan.bytes),
        ("rows", size.total.rows, size.scan.rows),
    ]
    selected = np.zeros(n, np.bool_)
    selected[plan.kept] = True
    never, always = plan.verdicts == Verdict.NEVER, plan.verdicts == Verdict.ALWAYS
    counts: dict[Decision, int] = {
        "whole": int((selected & always).sum()),
        "filter": int((selected & ~always).sum()),
        "limit": int((~selected & ~never).sum()),
        "pruned": int(never.sum()),
    }
    body = _heading("Plan", f"pruned by {plan.prunes_by}")
    if plan.predicate is not None:
        body += f"<pre>{escape(_condition(plan.predicate))}</pre>"
    texts = DECISIONS if plan.predicate is not None else {**DECISIONS, "whole": "read"}
    body += _bar(counts, texts, n, plan.table.unit)
    body += _grid(
        ("", "total", "read", "read %"),
        [(name, shown_number(a), shown_number(b), _share(b, a)) for name, a, b in rows],
    )
    body += _notes(f"never prunes: {text}" for text in plan.unused)
    if plan.table.unreadable:
        body += _notes([f"kept, but unreadable: {counted(len(plan.table.unreadable), 'files')}"])
    return fragment(body)


def table_html(table: Table) -> str:
    """Return a table as HTML: what it is, where it is, and its columns. It lists no folder."""
    path = table.path
    about = repr(table).partition("(")[2].rpartition("columns:")[0].strip(", ")
    body = _heading(type(table).__name__, about)
    if path is not None and path not in about:
        body += f'<div class="faint">{escape(shorten(without_secrets(path), 200))}</div>'
    partitions = set(table.partition_columns)
    columns = [
        (f.name, _type(f), "partition" if f.name in partitions else "")
        for f in islice(table.schema, MAX_COLUMNS)
    ]
    shown = 3 if partitions else 2
    titles = ("column", "type", "")
    body += _grid(titles[:shown], [column[:shown] for column in columns], numbers=False)
    return fragment(body + _more(len(table.schema), "columns"))


def statistics_html(stats: Statistics) -> str:
    """Return statistics as HTML: how many containers have which statistic of each column."""
    n, paths = stats.num_containers, stats.leaf_paths()
    about = [counted(n, "containers"), counted(len(paths), "columns")]
    about += [] if stats.levels is None else [f"{len(stats.levels.levels)} levels above them"]
    about += [] if stats.device is None else [str(stats.device)]
    body = _heading("Statistics", ", ".join(about))
    shown = paths[:MAX_COLUMNS]
    leaves = [stats.leaf(path) for path in shown]
    named = [
        (show_path(path), "" if leaf is None else str(leaf.dtype))
        for path, leaf in zip(shown, leaves, strict=True)
    ]
    # Columns of large tables are decoded at their first use, and those of a GPU lie there.
    if stats.device is None and (isinstance(stats._raw, dict) or n <= MAX_DECODED):
        rows = []
        for path, leaf, (name, dtype) in zip(shown, leaves, named, strict=True):
            raw = stats.raw(path)
            known = [
                shown_number(0 if a is None else len(a) - a.null_count)
                for a in (raw.min, raw.max, raw.null_count)
            ]
            kind = None if leaf is None else leaf.dtype
            ends = (_end(raw.min, "min", kind), _end(raw.max, "max", kind))
            rows.append((name, dtype, *ends, *known))
        titles = ("column", "type", "least", "greatest", "min", "max", "null_count")
        body += _grid(titles, rows, first_number=4)
        body += '<div class="faint">min, max, null_count: containers in which each is known</div>'
    else:
        body += _grid(("column", "type"), named, numbers=False)
    return fragment(body + _more(len(paths), "columns"))


def predicate_html(predicate: PruningPredicate) -> str:
    """Return a predicate as HTML: the condition, what statistics are tested for, its columns."""
    leaves = leaves_of(predicate.schema)
    types = {show_path(path): str(leaf.dtype) for path, leaf in leaves.items()}
    columns = ", ".join(f"{c} ({types.get(c, '?')})" for c in predicate.columns[:MAX_COLUMNS])
    rows = [("condition", _condition(predicate))]
    if _is_small(predicate):
        rows.append(("prunes unless", shorten(predicate.rewritten, MAX_SQL)))
    rows.append(("columns", columns or "none"))
    cells = "".join(
        f'<tr><th style="white-space: nowrap">{escape(name)}</th>'
        f"<td><pre>{escape(text)}</pre></td></tr>"
        for name, text in rows
    )
    body = f"{_heading('PruningPredicate', '')}<table>{cells}</table>"
    if predicate.always_true:
        body += _notes(["no statistics can prune by this condition"])
    if _is_small(predicate):
        reasons = islice(not_understood(predicate.node), 5)
        body += _notes(f"not understood: {r.what}: {r.why}" for r in reasons)
    return fragment(body)


def _is_small(predicate: PruningPredicate) -> bool:
    return sum(1 for _ in islice(predicate.node.walk(), MAX_NODES + 1)) <= MAX_NODES


def _condition(predicate: PruningPredicate) -> str:
    """Return a condition as SQL text of bounded length."""
    if not _is_small(predicate):
        names = ", ".join(predicate.columns[:MAX_COLUMNS])
        return f"a condition of more than {MAX_NODES:,} parts, over {names}"
    return shorten(predicate.expr, MAX_SQL)


def _heading(title: str, about: str) -> str:
    rest = f' <span class="faint">{escape(about)}</span>' if about else ""
    return f"<div><strong>{escape(title)}</strong>{rest}</div>"


def _bar(counts: dict[Decision, int], texts: dict[Decision, str], n: int, unit: str) -> str:
    """Return a bar whose parts are in proportion, with its legend."""
    if not n:
        return ""
    parts, legend = "", ""
    for decision, count in counts.items():
        if not count:
            continue
        colour = f"background: var(--{COLOURS[decision]})"
        parts += f'<span style="flex: {count} 1 0; min-width: 2px; {colour}"></span>'
        legend += (
            '<span style="display: inline-block; margin-right: 18px"><span style="display: '
            f'inline-block; width: 10px; height: 10px; border-radius: 3px; {colour}"></span> '
            f'{escape(texts[decision])} <span class="faint">{count:,}</span></span>'
        )
    return (
        f'<div role="img" aria-label="{n:,} {escape(unit)} by verdict" style="display: flex; '
        "height: 10px; max-width: 560px; gap: 1px; border-radius: 3px; overflow: hidden; margin: "
        f'8px 0 4px">{parts}</div><div style="font-size: 13px">{legend}</div>'
    )


def _grid(
    titles: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    numbers: bool = True,
    first_number: int = 1,
) -> str:
    """Return a table; columns from `first_number` on hold numbers, if any do."""
    kind = ' class="number"'

    def cells(tag: str, texts: Sequence[str]) -> str:
        return "".join(
            f"<{tag}{kind if numbers and k >= first_number else ''}>{escape(t)}</{tag}>"
            for k, t in enumerate(texts)
        )

    lines = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    head = f"<thead><tr>{cells('th', titles)}</tr></thead>"
    return f'<div class="wide"><table>{head}<tbody>{lines}</tbody></table></div>'


def _notes(texts: Iterable[str]) -> str:
    return "".join(f'<div class="warn">{escape(shorten(text, 300))}</div>' for text in texts)


def _more(count: int, what: str) -> str:
    remaining = count - MAX_COLUMNS
    return f'<div class="faint">and {remaining:,} more {what}</div>' if remaining > 0 else ""


def _share(part: int | None, total: int | None) -> str:
    return "–" if not total or part is None else f"{100 * part / total:.1f}"


def _type(field: pa.Field) -> str:
    """Return the type of a column as SQL writes it, with those of its parts, of bounded length."""
    return shorten(_nested(field), 80)


def _nested(field: pa.Field) -> str:
    kind = field.type
    if NOTE in (field.metadata or {}):
        return str(from_arrow(kind, field.metadata))
    if pa.types.is_struct(kind):
        # Wide structs are cut below; their first fields are enough.
        parts = (kind.field(i) for i in range(min(kind.num_fields, MAX_COLUMNS)))
        return f"STRUCT<{', '.join(f'{part.name}: {_nested(part)}' for part in parts)}>"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"ARRAY<{_nested(kind.value_field)}>"
    if pa.types.is_map(kind):
        return f"MAP<{_nested(kind.key_field)}, {_nested(kind.item_field)}>"
    return str(from_arrow(kind, field.metadata))


def _end(array: Any, side: str, dtype: DType | None) -> str:
    """Return the least or the greatest of some bounds as text; "" if it is unknown."""
    if array is None:
        return ""
    try:
        end = pc.min_max(array)[side]
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
        return ""
    try:
        value = end.as_py()
    except (pa.ArrowInvalid, UnicodeDecodeError):
        return ""
    except OverflowError:  # a day or time beyond the years of Python
        if dtype is None or not isinstance(end, pa.TimestampScalar | pa.Date32Scalar):
            return ""
        return show_value(end.value, dtype)
    if value is None:
        return ""
    try:
        text = str(value) if dtype is None else show_value(to_axis(value, dtype), dtype)
    except ValueError:  # not a value of the column's type
        text = str(value)
    return shorten(text, 32)
