"""The table of functions, by Spark's names."""

from __future__ import annotations

from typing import Final

from skipstone.ir.function import Function
from skipstone.ir.functions import arithmetic, casts, choice, dates, numbers, text, words

FUNCTIONS: Final[dict[str, Function]] = {
    **words.FUNCTIONS,
    **casts.FUNCTIONS,
    **arithmetic.FUNCTIONS,
    **numbers.FUNCTIONS,
    **dates.FUNCTIONS,
    **text.FUNCTIONS,
    **choice.FUNCTIONS,
}
