"""Statistics that pandas rounds: bounds are widened outwards, and no row is lost."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal as D
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import skipstone as ss
from skipstone.bindings.spark.statistics.needed import needed_statistics
from skipstone.bindings.spark.statistics.series import Carrier, read
from skipstone.spark import verdict_udf, with_verdict
from tests.support.spark.session import QUIET
from tests.support.spark.statistics import (
    SCHEMA,
    answers,
    called,
    frame,
)

pytestmark = pytest.mark.filterwarnings(QUIET)


BIG = 2**53


# predicate, bounds in one batch with a null, results of with_verdict, results of a direct call
EDGES = [
    (f"l = {BIG + 1}", [(BIG + 1, BIG + 1), (BIG + 2, None), (None, BIG), (BIG, BIG)], [2, 0, 0, 0],
     [1, 0, 1, 1]),
    (f"l < {BIG}", [(BIG - 1, BIG - 1), (BIG, None), (None, BIG - 1), (BIG + 1, None)],
     [2, 0, 2, 0], [2, 0, 2, 0]),
    (f"l > {BIG}", [(BIG + 1, BIG + 1), (None, BIG), (None, BIG + 1), (BIG + 3, None)],
     [2, 0, 1, 2], [1, 1, 1, 2]),
    (f"l >= {2**63 - 1}", [(2**63 - 1, None), (None, 2**63 - 2), (5, 2**63 - 1), (None, 2**62)],
     [2, 0, 1, 0], [1, 1, 1, 0]),
    (f"l <= {-(2**63)}", [(-(2**63), -(2**63)), (-(2**63) + 1, None), (None, 0), (0, None)],
     [2, 0, 1, 0], [1, 1, 1, 0]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "bounds", "exact", "direct"), EDGES)
def test_bounds_beyond_two_to_the_53(
    spark: Any, text: str, bounds: list[Any], exact: list[int], direct: list[int]
) -> None:
    predicate = ss.PruningPredicate(text, SCHEMA)
    low, high = zip(*bounds, strict=True)
    zeros = pa.array([0] * len(bounds), pa.int64())
    df = frame(
        spark,
        pa.table(
            {
                "l.min": pa.array(low, pa.int64()),
                "l.max": pa.array(high, pa.int64()),
                "l.null_count": zeros,
            }
        ),
    )
    assert (
        answers(with_verdict(df, predicate, strategy="pandas_udf").select("at", "verdict")) == exact
    )
    assert answers(df.select("at", called(verdict_udf(predicate), df))) == direct


#     column, statistic, pandas values, values read
SERIES: list[tuple[str, str, Any, list[Any] | None]] = [
    ("l", "min", np.array([5.0, np.nan, 2.0**53, -(2.0**63), 2.0**63]),
     [5, None, BIG, -(2**63), 2**63 - 512]),
    ("l", "max", np.array([5.0, np.inf, 2.0**53, -(2.0**63), 2.0**63]),
     [5, None, BIG + 1, -(2**63) + 512, 2**63 - 1]),
    ("l", "max", np.array([1.5, 1e300, 2.0**53 + 2, 2.0**63 - 1024]),
     [None, None, BIG + 2, 2**63 - 513]),
    ("l", "min", np.array([5, -5], np.float32),  [5, -5]),
    ("l", "min", np.array([2.0**24, np.nan], np.float32), [None, None]),
    ("l", "min", [D("5"), D("5.5"), None],       [5, None, None]),
    ("l", "min", ["a", None],                    [None, None]),
    ("l", "null_count", np.array([0.0, np.nan, 2.0**53 - 1, 2.0**53, 0.5]),
     [0, None, BIG - 1, None, None]),
    ("l", "row_count", [None, None],                   None),
    ("m", "min", np.array([5.0, np.nan]),        None),
    ("m", "min", [D("5.50"), None],              [D("5.50"), None]),
    ("g", "max", np.array([5.5, np.nan]),        [5.5, None]),
    ("b", "max", [True, None],                   [True, None]),
    ("b", "max", np.array([1, 0]),               None),
    ("s", "max", ["ab", None],                   ["ab", None]),
    ("y", "max", [b"ab", None],                  [b"ab", None]),
    ("d", "min", [dt.date(2024, 1, 1), None],    [dt.date(2024, 1, 1), None]),
    ("d", "min", np.array(["2024-01-01"], "datetime64[ns]"), None),
    ("t", "min", np.array([0], "datetime64[s]"), [dt.datetime(1969, 12, 31, 6, tzinfo=dt.UTC)]),
    ("t", "max", np.array([0], "datetime64[s]"), [dt.datetime(1970, 1, 1, 18, tzinfo=dt.UTC)]),
    ("n", "max", np.array([0], "datetime64[s]"), [dt.datetime(1970, 1, 1)]),
]  # fmt: skip


@pytest.mark.parametrize(("column", "statistic", "values", "expected"), SERIES)
def test_pandas_rounding_widens_bounds(
    column: str, statistic: str, values: Any, expected: list[Any] | None
) -> None:
    import pandas as pd

    predicate = ss.PruningPredicate(f"{column} IS NULL", SCHEMA)
    (needed,) = (s for s in needed_statistics(predicate) if s.name == f"{column}.{statistic}")
    found = read(needed, Carrier(), pd.Series(values))
    assert (found if found is None else found.to_pylist()) == expected
