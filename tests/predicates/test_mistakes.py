"""Mistakes in predicates that are not SQL: each error says what to write instead."""

import uuid

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import skipstone as ss
from skipstone import col
from tests.support.predicates.schemas import INPUTS as SCHEMA


def of(predicate):
    return ss.PruningPredicate(predicate, SCHEMA)


PYTHON = ss.UnknownFunction
MISTAKES = [
    (lambda: of("s = \u201cBOS\u201d"), ss.UnknownColumn, "Write straight quotes: 'BOS'"),
    (
        lambda: of("s IN (\u2018B S\u2019)"),
        ss.PredicateError,
        "expected \\).*; write straight quotes",
    ),
    (lambda: of("x > 1_000"), ss.UnknownColumn, "Write 1000, without underscores"),
    (lambda: of("x > 1,000"), ss.PredicateSyntaxError, "write a number without commas"),
    (lambda: of("s EQUALS 'BOS'"), ss.PredicateSyntaxError, "write = instead of EQUALS"),
    (lambda: of("x > 5 - 7 days"), ss.PredicateSyntaxError, "'days' .*; write INTERVAL 7 DAYS"),
    (lambda: of("x > 5 b"), ss.PredicateSyntaxError, "'b' follows a whole condition; join"),
    (lambda: of("my col > 1000"), ss.PredicateSyntaxError, "has blanks in backticks: `my col`"),
    (lambda: of("x = 1 AND my col IS NULL"), ss.PredicateSyntaxError, "backticks: `my col`"),
    (lambda: of("t > datetime.datetime(2024, 1, 1)"), PYTHON, "'datetime.datetime'.* of Python"),
    (
        lambda: of("x IN (np.int64(1), np.int64(2))"),
        PYTHON,
        r"'np.int64'.*\[\('x', '>=', value\)\]",
    ),
    (lambda: bool(col("x") == 1), TypeError, "write & | ~"),
    (lambda: 1 < col("x") < 3, TypeError, "write & | ~"),
    (lambda: col("x") == {1: 2}, ss.PredicateError, "is not a literal; expected"),
    (lambda: col("x") == uuid.UUID(int=5), ss.PredicateError, r"write its bytes \(\.bytes\)"),
    (lambda: col(""), ss.PredicateError, "expected a column's name"),
    (lambda: col("s").like("a", "!!"), ss.PredicateError, "expected one character"),
    (
        lambda: ss.PruningPredicate([("x", "~", 5)], SCHEMA),
        ss.PredicateSyntaxError,
        "operator '~'; expected one of",
    ),
    (
        lambda: ss.PruningPredicate([("x", "=")], SCHEMA),
        ss.PredicateSyntaxError,
        "expected \\(column, operator, value\\)",
    ),
    (lambda: col("x").isin("1.0"), ss.PredicateError, r"isin got str '1.0'; .*\['1.0'\]"),
    (lambda: col("x").isin(b"a"), ss.PredicateError, "isin got bytes b'a'; expected a list"),
    (lambda: col("x").isin(5), ss.PredicateError, r"isin got int 5; expected .*, as in \[5\]"),
    (lambda: col("x").isin(col("i")), ss.PredicateError, "isin got Expr"),
    (lambda: col("x").isin({1: 2}), ss.PredicateError, "isin got dict; expected a list, or an"),
    (lambda: col("x").isin(np.ones((2, 2))), ss.PredicateError, "array of one column"),
    (
        lambda: ss.PruningPredicate([("x", "in", 5)], SCHEMA),
        ss.PredicateSyntaxError,
        "expected a list of values",
    ),
    (lambda: ss.PruningPredicate([[]], SCHEMA), ss.PredicateSyntaxError, "is empty"),
    (lambda: ss.PruningPredicate(5, SCHEMA), ss.PredicateError, "cannot be made from int"),
    (lambda: ss.PruningPredicate("x = 1", [("x", int)]), ss.PredicateError, "schema is list"),
    (
        lambda: ss.PruningPredicate("x = 1", SCHEMA, timezone="Mars/Olympus"),
        ss.PredicateError,
        "timezone 'Mars/Olympus' is not known",
    ),
    (lambda: ss.PruningPredicate(pc.field(0) == 1, SCHEMA), ss.PredicateError, "name its columns"),
    (
        lambda: ss.PruningPredicate(col("s") == "\ud800", SCHEMA),
        ss.PredicateError,
        "is not a literal",
    ),
    (
        lambda: ss.PruningPredicate("x = 1", SCHEMA).prune({"x": {"min": [1]}}),
        ss.StatisticsError,
        r"type dict, which has no num_containers; .* Statistics.from_dict\(columns, schema\)",
    ),
    (
        lambda: ss.PruningPredicate("x = 1", SCHEMA).prune(pa.table({"x.min": [1]})),
        ss.StatisticsError,
        r"a provider with num_containers, min_values, .* Statistics.from_arrow\(table, schema\)",
    ),
    (lambda: col("x") == [1], ss.PredicateError, "is not a literal; .* by isin$"),
    (lambda: col("x").isin(pa.table({"a": [1]})), ss.PredicateError, "isin got Table; .* of one"),
    (lambda: col("x").cast("int"), ss.PredicateError, r"cast got 'int'; .* pyarrow.int64\(\)"),
    (lambda: col("x").cast(int), ss.PredicateError, "cast got <class 'int'>; expected an Arrow"),
    (lambda: ss.call(5), ss.PredicateError, "call got 5; expected a function's name"),
    (
        lambda: ss.register_function("f", abs, returns="int"),
        ss.PredicateError,
        "returns is 'int'; expected an Arrow type",
    ),
    (lambda: ss.DynamicFilter(columns="x"), ss.DynamicFilterError, "columns is 'x'; expected"),
    (
        lambda: ss.DynamicFilter(pa.table({"x": [1]})),
        ss.DynamicFilterError,
        "keys are a Table; .*finish",
    ),
    (
        lambda: ss.DynamicFilterCollector("x", pa.table({"x": [1]})),
        ss.DynamicFilterError,
        r"schema is Table; expected a pyarrow.Schema: give its \.schema",
    ),
    (lambda: of("f = nan"), ss.UnknownColumn, r"Did you mean NaN. Write double\('NaN'\)"),
    (lambda: of("d > 2024-01-01 00:00:00"), ss.PredicateSyntaxError, "12:00:00', in quotes"),
    (lambda: 5 in col("x"), TypeError, r"write column.isin\(\[value, ...\]\)"),
    (lambda: col("x").is_in([1]), AttributeError, r"'is_in'; write column.isin\("),
    (lambda: col("x").isnull(), AttributeError, r"'isnull'; write column.is_null\(\)"),
    (lambda: col("s").contains("a"), AttributeError, r"write call\('contains', column, ...\)"),
    (lambda: col("s").nosuch, AttributeError, "'Expr' object has no attribute 'nosuch'"),
    (lambda: of({"x": 3}), ss.PredicateError, r"write \[\('x', '=', 3\)\]$"),
    (lambda: of(("x", "=", 3)), ss.PredicateError, r"write a list of it: \[\('x', '=', 3\)\]$"),
    (lambda: of(["x = 3", "i = 1"]), ss.PredicateError, "join the conditions by AND in one text"),
    (lambda: of(True), ss.PredicateError, "for all rows, give None"),
    (lambda: of(np.array([True])), ss.PredicateError, "from ndarray; .*a mask of rows"),
    (lambda: of(pd.Series([1])), ss.PredicateError, "from Series; .*write the condition itself"),
    (
        lambda: of(pl.col("x") > 3),
        ss.PredicateError,
        r"or skipstone\.polars\.scan\(",
    ),
    (lambda: of("s = abc"), ss.UnknownColumn, "Write text in single quotes: 'abc'"),
    (lambda: of("s IN (abc, 'b')"), ss.UnknownColumn, "Write text in single quotes: 'abc'"),
    (lambda: of("x == None"), ss.UnknownColumn, "Did you mean NULL. Write column IS NULL"),
    (lambda: of("t.x = 5"), ss.UnknownColumn, "Did you mean 'x'"),
    (
        lambda: ss.PruningPredicate("x = 1", pa.table({"x": [1]})),
        ss.PredicateError,
        r"schema is Table; expected a pyarrow.Schema: give its \.schema",
    ),
    (
        lambda: ss.prune_many(ss.PruningPredicate("x = 1", SCHEMA), None),
        ss.PredicateError,
        r"expected a list of them: write \[predicate\]",
    ),
    (lambda: ss.PruningPredicate([], SCHEMA), ss.PredicateError, "cannot be made from list"),
]


@pytest.mark.parametrize("make, error, message", MISTAKES)
def test_mistakes(make, error, message):
    with pytest.raises(error, match=message):
        make()
