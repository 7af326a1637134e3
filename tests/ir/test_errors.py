"""Error messages: one line, bounded, without secrets."""

import pytest

import skipstone as ss
from skipstone.ir.errors import describe_error, unknown_column, without_secrets

SECRETS = [
    ("https://me:pw@host/t.parquet", "https://host/t.parquet"),
    ("s3://key:pw@bucket/a b: no such file", "s3://bucket/a b: no such file"),
    ("https://h/t?sig=a%2Fb&v=1", "https://h/t?sig=...&v=..."),
    ("cannot open 'abfs://c@a.dfs/t?sig=x'", "cannot open 'abfs://a.dfs/t?sig=...'"),
    ("s3://b/t?region=eu: no host", "s3://b/t?region=...: no host"),
    ("name it (s3://b/t?region=eu), or", "name it (s3://b/t?region=...), or"),
    ("mail me@host, a=b?c", "mail me@host, a=b?c"),
]


@pytest.mark.parametrize(("text", "without"), SECRETS)
def test_messages_hide_secrets(text, without):
    assert without_secrets(text) == without
    assert str(ss.SourceError(text)) == without
    assert describe_error(OSError(text)) == f"OSError: {without}"


def test_causes_stay_on_one_bounded_line():
    e = ValueError("\x1b[31mfirst\x1b[0m\n\n  second \n" + "x" * 100_000 + " the cause")
    said = describe_error(e)
    assert said.startswith("ValueError: first; second; xxx") and said.endswith("the cause")
    assert len(said) < 400 and "\n" not in said and "\x1b" not in said
    assert describe_error(KeyError()) == "KeyError"


def test_a_name_after_an_alias_of_the_table():
    assert str(unknown_column("t.x", ["x", "y"])).endswith("has 'x', 'y'. Did you mean 'x'?")
    assert str(unknown_column("flights.dest", FLIGHTS)).endswith("Did you mean 'dest'?")
    assert str(unknown_column("a.c", ["a.b", "c"])).endswith("Did you mean 'a.b'?")


FLIGHTS = [
    "year", "day", "dep_time", "sched_dep_time", "dep_delay", "arr_time", "sched_arr_time",
    "arr_delay", "carrier", "flight", "tailnum", "origin", "dest", "air_time",
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "hint"),
    [("delay", "dep_delay"), ("dst", "dest"), ("DEST", "dest"), ("ay", "day"), ("zz", None)],
)
def test_the_nearest_columns_are_listed(name, hint):
    text = str(unknown_column(name, FLIGHTS))
    assert text.endswith("and 6 more." if hint is None else f"Did you mean {hint!r}?")
    assert hint is None or text.partition("the schema has ")[2].startswith(f"{hint!r}, ")
    assert text.count(", ") == 7


def test_an_unknown_column_among_many():
    error = unknown_column("nope", [f"c{k}" for k in range(10)])
    known = ", ".join(f"'c{k}'" for k in range(8))
    assert str(error) == f"predicate names 'nope'; the schema has {known} and 2 more."
