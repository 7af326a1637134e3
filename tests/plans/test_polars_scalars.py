"""Functions in Polars' conditions: queries return the rows that Polars finds, and files are pruned.

Random rows hold NULLs, NaN, both zeros, the ends of types, early times and odd letters.
"""

import datetime as dt
import functools
import random

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skipstone as ss
from skipstone.bindings.tables.table import Table
from tests.support.effort import LONG

GROUPS, ROWS = 20, 20
UTC = dt.UTC
TEXTS = ["abc", "Abc", "ab", "", "a b", "éa", "ßß", "İx", "ǅ", "a\nb", "zz", "x-1", "^ab", "日本"]
FLOATS = [0.0, -0.0, 1.5, -2.25, 100.0, float("nan"), float("inf"), float("-inf"), 1e300]
ENDS = {8: [-128, 127], 32: [-(2**31), 2**31 - 1], 64: [-(2**63), 2**63 - 1]}


def rows(seed):
    """Return rows whose groups lie apart in most columns, so that some can be pruned."""
    r, out = random.Random(seed), []
    for g in range(GROUPS):
        odd = r.random() < 0.2
        for _ in range(ROWS):
            day = dt.date(2020, 1, 1) + dt.timedelta(g * 60 + r.randrange(40))
            if odd and r.random() < 0.2:
                day = r.choice([dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(9999, 12, 31)])
            far = odd and r.random() < 0.1
            time = dt.datetime.combine(day, dt.time(r.randrange(24), r.randrange(60)))
            one = {
                "i8": r.choice(ENDS[8]) if far else g * 5 + r.randrange(3),
                "i32": r.choice(ENDS[32]) if far else g * 100 + r.randrange(50),
                "i64": r.choice(ENDS[64]) if far else (g - 5) * 10**6,
                "f": r.choice(FLOATS) if odd else g * 10 + r.random() * 5,
                "s": r.choice(TEXTS) if odd else f"{chr(97 + g)}{r.randrange(30)}",
                "d": day, "n": time, "u": time.replace(tzinfo=UTC), "b": r.random() < 0.5,
                "st": None if r.random() < 0.1 else {"a": g * 3 + r.randrange(2), "t": f"t{g}"},
                "l": [r.choice([g * 3 + r.randrange(3), None]) for _ in range(r.randrange(4))],
                "w": [f"{chr(97 + g)}{r.randrange(4)}", None][: r.randrange(3)],
            }  # fmt: skip
            out.append({k: None if odd and r.random() < 0.1 else v for k, v in one.items()})
    kinds = {"i8": pa.int8(), "i32": pa.int32(), "i64": pa.int64(), "f": pa.float64(),
             "s": pa.string(), "d": pa.date32(), "n": pa.timestamp("us"), "b": pa.bool_(),
             "u": pa.timestamp("us", "UTC"),
             "st": pa.struct({"a": pa.int64(), "t": pa.string()}),
             "l": pa.list_(pa.int64()), "w": pa.list_(pa.string())}  # fmt: skip
    return pa.Table.from_pylist(out, pa.schema(kinds))


def scalar(r, c):
    """Return a scalar of Polars, and a function that makes a literal to compare it with."""
    day = lambda: dt.date(2020, 1, 1) + dt.timedelta(r.randrange(1400))
    clock = lambda: dt.datetime.combine(day(), dt.time(r.randrange(24)))
    number = lambda: r.randrange(-5, 2000)
    text = lambda: r.choice([*TEXTS, chr(97 + r.randrange(GROUPS)) + str(r.randrange(30))])
    time, whole = r.choice(["d", "n", "u"]), r.choice(["i8", "i32", "i64"])
    return r.choice(
        [
            (c(time).dt.year(), lambda: r.randrange(2018, 2026)),
            (c(time).dt.month(), lambda: r.randrange(13)),
            (c(time).dt.quarter(), lambda: r.randrange(5)),
            (c(time).dt.day(), lambda: r.randrange(32)),
            (c(time).dt.week(), lambda: r.randrange(54)),
            (c(time).dt.weekday(), lambda: r.randrange(9)),
            (c(time).dt.ordinal_day(), lambda: r.randrange(367)),
            (c(r.choice("nu")).dt.hour(), lambda: r.randrange(25)),
            (c(r.choice("nu")).dt.date(), day),
            (c("d").dt.truncate(r.choice(["1w", "1mo", "1q", "1y"])), day),
            (c("n").dt.truncate(r.choice(["1w", "1mo", "1q", "1y", "1d", "1h", "1m"])), clock),
            (c("u").dt.truncate(r.choice(["1w", "1mo", "1y", "1d", "1h"])),
             lambda: clock().replace(tzinfo=UTC)),
            (c(time).dt.strftime(r.choice(["%Y-%m", "%Y%m%d", "%d.%m.%Y"])),
             lambda: day().strftime(r.choice(["%Y-%m", "%Y%m%d", "%d.%m.%Y"]))),
            (c("s").str.to_lowercase(), lambda: text().lower()),
            (c("s").str.to_uppercase(), lambda: text().upper()),
            (c("s").str.len_chars(), lambda: r.randrange(5)),
            (c("s").str.len_bytes(), lambda: r.randrange(7)),
            (c("s").str.head(r.randrange(3)), lambda: text()[:2]),
            (c("s").str.slice(r.randrange(2), r.randrange(3)), lambda: text()[:2]),
            (c("s").fill_null(pl.lit(text())), text),
            (pl.coalesce(c("s"), c("st").struct.field("t")), text),
            (c("st").struct.field("a"), lambda: r.randrange(70)),
            (c(whole) + r.randrange(100), number), (c(whole) - r.randrange(100), number),
            (c(whole) * r.randrange(-3, 4), number), (c(whole) // r.randrange(1, 50), number),
            (c("i64") + c("i64"), number), (c("i32").abs(), number), (c("f").abs(), number),
            (c("f") * 2.5, number), (c("f") - 7, number), (c("f") / 4.0, number),
            (c("i32").fill_null(r.randrange(2000)), number),
            (pl.when(c("b")).then(c("i64")).otherwise(r.randrange(100)), number),
            (pl.when(c("i32") > 500).then(c("s")).otherwise(pl.lit("zz")), text),
        ]
    )  # fmt: skip


def condition(r, depth=2):
    """Return a random condition of Polars."""
    c = pl.col
    if depth and r.random() < 0.5:
        a, b = condition(r, depth - 1), condition(r, depth - 1)
        return r.choice([a & b, a | b, ~a])
    x, literal = scalar(r, c)
    kind = r.randrange(9)
    if kind == 8:
        part = chr(97 + r.randrange(GROUPS)) + str(r.randrange(4))
        return r.choice([c("l").list.contains(r.randrange(3 * GROUPS)),
                         c("w").list.contains(part), c("l").list.contains(c("i64")),
                         c("w").list.contains(part).is_null()])  # fmt: skip
    if kind == 0:
        return r.choice([x.is_null(), x.is_not_null()])
    if kind == 1:
        return x.is_between(literal(), literal(), closed=r.choice(["both", "left", "none"]))
    if kind == 2:
        return x.is_in([literal() for _ in range(3)])
    if kind == 3:
        part = r.choice(["a", "ab", "b1", "x-1", "c", "zz"])
        s = r.choice([c("s"), c("s").str.to_lowercase()])
        return r.choice([s.str.starts_with(part), s.str.ends_with(part),
                         s.str.contains(part, literal=True), s.str.contains("^" + part),
                         s.str.contains(part + "$"), s.str.contains(part)])  # fmt: skip
    if kind == 4:
        return r.choice([x.eq_missing(literal()), x.ne_missing(literal())])
    y = literal()
    return r.choice([x == y, x != y, x < y, x <= y, x > y, x >= y])


@pytest.mark.parametrize("seed", range(60 if LONG else 3))
def test_rows_are_those_that_polars_finds(seed, tmp_path, monkeypatch):
    plans, plan = [], Table.plan

    def watched(self, *args, **options):
        plans.append(plan(self, *args, **options))
        return plans[-1]

    monkeypatch.setattr(Table, "plan", watched)
    path, r = tmp_path / "t.parquet", random.Random(seed)
    pq.write_table(rows(seed), path, row_group_size=ROWS)
    lazy, whole = ss.polars.scan(path), pl.read_parquet(path)
    asked, answered = 0, 0
    while asked < 120:
        test = condition(r)
        try:
            expected = whole.filter(test)
        except pl.exceptions.PolarsError:  # Polars refuses it
            continue
        asked += 1
        assert lazy.filter(test).collect().equals(expected), test
        answered += len(plans[-1].kept) < GROUPS
    assert answered > asked / 5


def test_an_element_of_a_list_prunes(tmp_path, monkeypatch):
    plans, plan = [], Table.plan
    monkeypatch.setattr(Table, "plan", lambda *a, **k: plans.append(plan(*a, **k)) or plans[-1])
    table = pa.table({"l": pa.array([[g, None] for g in range(10)], pa.list_(pa.int64()))})
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=1)
    lazy = ss.polars.scan(tmp_path / "t.parquet")
    for test, count, groups in (
        (pl.col("l").list.contains(3), 1, 1),
        (~pl.col("l").list.contains(3), 9, 10),
        (pl.col("l").list.contains(3) | pl.col("l").list.contains(7), 2, 2),
    ):
        assert lazy.filter(test).collect().height == count
        assert len(plans[-1].kept) == groups


@pytest.mark.parametrize("ansi", [True, False])
@pytest.mark.parametrize("bits", [32, 64])
def test_integers_wrap_as_in_polars(bits, ansi, tmp_path):
    """Quotients keep their type, and no step of a floor division overflows by itself."""
    low, high = ENDS[bits]
    values = pa.array([v for v in (low, low + 1, high - 1, high) for _ in range(2)], f"int{bits}")
    pq.write_table(pa.table({"x": values}), tmp_path / "t.parquet", row_group_size=2)
    lazy, whole = ss.scan_parquet(tmp_path).plan(ansi=ansi).to_polars(), pl.Series("x", values)
    x, k = pl.col("x"), pl.lit(3, dtype=whole.dtype)
    for one in (x // k, x // 1, x // 2 * 4, (x // 5 - 2) * k, x + k, x - k, x * k, x.abs() + 1):
        for value in whole.to_frame().select(one).to_series().unique():
            for test in (one == value, one != value, one <= value, one > value):
                expected = whole.to_frame().filter(test)
                assert lazy.filter(test).collect().equals(expected), test


def test_nested_quotients_do_not_grow(tmp_path):
    pq.write_table(pa.table({"x": range(9)}), tmp_path / "t.parquet")
    deep = functools.reduce(lambda a, _: a // 2, range(40), pl.col("x")) == 0
    assert ss.polars.scan(tmp_path).filter(deep).collect().height == 9
