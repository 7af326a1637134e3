"""SQL text of operations and logic in native Spark expressions; constants are folded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from skipstone.ir.node import Op
from skipstone.kernels.run.emit import join

# AND, OR and NOT are calls, and no operand has parentheses of its own: at each "(" Spark's parser
# looks ahead to the ")", and keeps what it saw (docs/decisions/spark.md). Calls to names that are
# operators: a session could give another function such a name, and no session does.
EMIT: Final = {
    Op.LT: "{0} < {1}",
    Op.LE: "{0} <= {1}",
    Op.GT: "{0} > {1}",
    Op.GE: "{0} >= {1}",
    Op.AND: "`and`({0}, {1})",
    Op.OR: "`or`({0}, {1})",
    Op.NOT: "`not`({0})",
    # A binary search of sorted runs: skip those that end below a lower bound. An unknown bound is
    # NULL and skips none.
    Op.ANY_IN: "if({0} > {1}, {3}, {2})",
    Op.NOT_ALL_IN: "if({0} > {1}, {3}, {2})",
    Op.MAY_CONTAIN: "coalesce(exists({0}, {1} -> `or`({2} IS NULL, {2} IN ({3}))), true)",
    Op.MAY_CONTAIN_OTHER: (
        "coalesce(`or`(size({0}) = 0, "
        "exists({0}, {1} -> `or`({2} IS NULL, {2} NOT IN ({3})))), true)"
    ),
}
YES: Final = "true"
NO: Final = "false"
MEMBER: Final = "`skipstone member`"  # a lambda's variable; no column is likely to have that name


def holds(template: str, *counts: str | None) -> str:
    """Return a test of counts; NO if one of them is unknown everywhere."""
    return NO if None in counts else template.format(*counts)


def choose(condition: str, then: str, otherwise: str) -> str:
    """Return text of `then` where a condition holds, else of `otherwise`."""
    return {YES: then, NO: otherwise}.get(condition) or f"if({condition}, {then}, {otherwise})"


def inverse(condition: str) -> str:
    """Return NOT of a condition."""
    return {YES: NO, NO: YES}.get(condition) or EMIT[Op.NOT].format(condition)


def all_of(*conditions: str) -> str:
    """Return AND of any number of conditions."""
    return _joined(Op.AND, conditions, YES, NO)


def any_of(*conditions: str) -> str:
    """Return OR of any number of conditions."""
    return _joined(Op.OR, conditions, NO, YES)


def _joined(op: Op, conditions: Sequence[str], neutral: str, final: str) -> str:
    kept = [c for c in dict.fromkeys(conditions) if c != neutral]
    if final in kept:
        return final
    return join(op, kept, EMIT) if kept else neutral
