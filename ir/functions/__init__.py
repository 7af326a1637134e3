"""The table of functions, by Spark's names."""

from __future__ import annotations

from typing import Final

from skipstone.ir.function import Function
from skipstone.ir.functions import (
    arithmetic,
    arrays,
    casts,
    choice,
    codes,
    dates,
    division,
    formats,
    iceberg,
    intervals,
    lambdas,
    maps,
    moves,
    numbers,
    patterns,
    text,
    words,
)

FUNCTIONS: Final[dict[str, Function]] = {
    **words.FUNCTIONS,
    **codes.FUNCTIONS,
    **casts.FUNCTIONS,
    **arithmetic.FUNCTIONS,
    **division.FUNCTIONS,
    **numbers.FUNCTIONS,
    **dates.FUNCTIONS,
    **formats.FUNCTIONS,
    **moves.FUNCTIONS,
    **intervals.FUNCTIONS,
    **text.FUNCTIONS,
    **patterns.FUNCTIONS,
    **choice.FUNCTIONS,
    **arrays.FUNCTIONS,
    **maps.FUNCTIONS,
    **lambdas.FUNCTIONS,
    **iceberg.FUNCTIONS,
}
