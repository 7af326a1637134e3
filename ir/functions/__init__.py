"""The table of functions, by Spark's names."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skipstone.ir.function import Function


@functools.cache
def builtin_functions() -> Mapping[str, Function]:
    """Return the built-in functions by name; a condition that calls none imports no table."""
    from skipstone.ir.functions import (
        angles,
        approximate,
        arithmetic,
        casts,
        choice,
        codes,
        dates,
        division,
        formats,
        hashes,
        iceberg,
        intervals,
        moves,
        numbers,
        patterns,
        powers,
        text,
        words,
    )
    from skipstone.ir.functions.nested import arrays, lambdas, maps

    return {
        **words.FUNCTIONS,
        **codes.FUNCTIONS,
        **casts.FUNCTIONS,
        **arithmetic.FUNCTIONS,
        **division.FUNCTIONS,
        **numbers.FUNCTIONS,
        **approximate.FUNCTIONS,
        **powers.FUNCTIONS,
        **angles.FUNCTIONS,
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
        **hashes.FUNCTIONS,
    }
