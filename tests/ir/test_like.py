"""LIKE: patterns, escapes, prefixes, and the string after a prefix."""

import re

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import skipstone as ss
from skipstone.ir.like import after_prefix, decode
from skipstone.ir.rows import evaluate_rows

SCHEMA = pa.schema([("s", pa.string())])

#    pattern      escape  prefix   literal  prefix alone decides
DECODED = [
    ("ab%",       "\\",   "ab",    False,   True),
    ("ab%%",      "\\",   "ab",    False,   True),
    ("ab",        "\\",   "ab",    True,    False),
    ("",          "\\",   "",      True,    False),
    ("%",         "\\",   "",      False,   True),
    ("%b",        "\\",   "",      False,   False),
    ("a%b",       "\\",   "a",     False,   False),
    ("a_",        "\\",   "a",     False,   False),
    ("a_%",       "\\",   "a",     False,   False),
    (r"a\_b%",    "\\",   "a_b",   False,   True),
    (r"a\%",      "\\",   "a%",    True,    False),
    (r"a\\%",     "\\",   "a\\",   False,   True),
    ("a!%b!!%",   "!",    "a%b!",  False,   True),
    (r"a\%",      "!",    "a\\",   False,   True),
]  # fmt: skip


@pytest.mark.parametrize("pattern, escape, prefix, literal, decides", DECODED)
def test_decode(pattern, escape, prefix, literal, decides):
    found = decode(pattern, escape)
    assert (found.prefix, found.is_literal, found.is_prefix) == (prefix, literal, decides)


@pytest.mark.parametrize("pattern", ["a\\", r"a\b", "\\", r"\x%"])
def test_spark_refuses(pattern):
    assert decode(pattern, "\\") is None
    p = ss.PruningPredicate(ss.col("s").like(pattern), SCHEMA)
    assert "Spark refuses" in p.node.value.why


#    prefix          after it
AFTER = [
    ("a",             "b"),
    ("az",            "a{"),
    ("a\x7f",         "a\x80"),  # one byte becomes two
    ("a\u07ff",       "a\u0800"),
    ("a\uffff",       "a\U00010000"),
    ("a\ud7ff",       "a\ue000"),  # surrogates are not characters
    ("a\U0010ffff",   "b"),             # the last character has no next
    ("\U0010ffff",    None),
    ("\U0010ffff" * 3, None),
    ("é",             "ê"),
    ("\x00",          "\x01"),
]  # fmt: skip


@pytest.mark.parametrize("prefix, after", AFTER)
def test_after_prefix(prefix, after):
    assert after_prefix(prefix.encode()) == (None if after is None else after.encode())


texts = st.text(st.sampled_from("ab\x7f\u07ff\ud7ff\ue000\uffff\U00010000\U0010ffff"), max_size=4)


@given(texts.filter(bool), texts)
def test_after_prefix_is_the_least_upper_bound(prefix, rest):
    after = after_prefix(prefix.encode())
    whole = (prefix + rest).encode()
    assert after is None or whole < after
    if after is not None and rest.encode() < after:
        assert (rest.encode() >= prefix.encode()) == rest.startswith(prefix)


patterns = st.text(st.sampled_from("ab%_\\!\n.*[$"), max_size=5)


values_of = st.text(st.sampled_from("ab%_\\!\n.*[$é\U0010ffff"), max_size=5)


@given(patterns, st.lists(values_of, max_size=4))
def test_rows_match_as_the_pattern_says(pattern, values):
    decoded = decode(pattern, "\\")
    if decoded is None:
        return
    parts = [
        {"%": "(?s:.)*", "_": "(?s:.)"}[text] if wild else re.escape(text)
        for wild, text in decoded.tokens
    ]
    expected = [re.fullmatch("".join(parts), v) is not None for v in values]
    p = ss.PruningPredicate(ss.col("s").like(pattern), SCHEMA)
    assert (
        evaluate_rows(
            p.node, pa.record_batch([pa.array(values, pa.string())], schema=SCHEMA)
        ).to_pylist()
        == expected
    )


#    predicate                   min      max      nulls  verdict
CASES = [
    ("s LIKE 'ab%'",             "aba",   "abz",   0,     2),
    ("s LIKE 'ab%'",             "aba",   "abz",   1,     1),
    ("s LIKE 'ab%'",             "ab",    "ac",    0,     1),  # 'ac' has another prefix
    ("s LIKE 'ab%'",             "ac",    "ad",    0,     0),
    ("s LIKE 'ab%'",             "a",     "aa",    0,     0),
    ("s LIKE 'ab%'",             None,    "aa",    0,     0),
    ("s LIKE 'ab%'",             "ac",    None,    0,     0),
    ("s LIKE 'ab%'", "ab", None, 0, 1),  # an unknown maximum is above everything
    ("s NOT LIKE 'ab%'",         "aba",   "abz",   0,     0),
    ("s NOT LIKE 'ab%'",         "aba",   "abz",   1,     0),   # NULL is not TRUE either
    ("s NOT LIKE 'ab%'",         "ac",    "ad",    0,     2),
    ("s NOT LIKE 'ab%'",         "aba",   None,    0,     1),
    ("s LIKE 'ab%c'",            "aba",   "abz",   0,     1),   # the rest of the pattern may fail
    ("s NOT LIKE 'ab%c'",        "aba",   "abz",   0,     1),
    ("s LIKE 'ab%c'",            "ac",    "ad",    0,     0),
    ("s NOT LIKE 'ab%c'",        "ac",    "ad",    0,     2),
    ("s LIKE '%c'",              "ac",    "ad",    0,     1),
    ("s LIKE '%'",               "ac",    "ad",    0,     2),
    ("s LIKE '%'",               "ac",    "ad",    1,     1),
    ("s LIKE ''",                "",      "",      0,     2),
    ("s LIKE 'ab'",              "ab",    "ab",    0,     2),
    ("s LIKE 'a\\\\_%'",         "a_",    "a_z",   0,     2),
    ("s LIKE 'a\\\\_%'",         "ab",    "az",    0,     0),  # the escaped underscore is literal
    ("s LIKE 'a\\_%'",           "ab",    "az",    0,     0),
    ("s LIKE 'a!_%' ESCAPE '!'", "ab",    "az",    0,     0),
    ("s LIKE '\U0010ffff%'",     "\U0010ffff", "\U0010ffffz", 0, 2),
    ("s LIKE '\U0010ffff%'",     "a",     "b",     0,     0),
    ("s LIKE 'a\ud7ff%'",        "a\ud7ffz", "a\ue000", 0, 1),
    ("s LIKE NULL",              "a",     "b",     0,     0),
    # Spark refuses the pattern, so the container is kept
    ("s LIKE 'a\\\\b'",          "a",     "b",     0,     1),
]  # fmt: skip


@pytest.mark.parametrize("predicate, low, high, nulls, verdict", CASES)
def test_verdicts(predicate, low, high, nulls, verdict):
    stats = ss.Statistics.from_dict(
        {"s": {"min": [low], "max": [high], "null_count": [nulls], "row_count": [5]}}, SCHEMA
    )
    assert ss.PruningPredicate(predicate, SCHEMA).evaluate(stats).tolist() == [verdict]
