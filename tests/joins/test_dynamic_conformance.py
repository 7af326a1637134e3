"""Conformance of joins that prune: behaviours of Flink, Spark and Trino, restated.

The table names the test of each behaviour. Behaviours without another file are tested here.
"""

import datetime as dt
import importlib
import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skipstone as ss
from skipstone.bindings.joins.join import join_explained
from skipstone.spark import prune_join, pruned
from tests.support.joins.dynamic_cases import MAYBE, NEVER, V05, box, collected, judge, schema
from tests.support.spark.session import QUIET

pytestmark = pytest.mark.filterwarnings(QUIET)

LONG = schema(k=pa.int64())

HERE, COLLECT, CORE, PLANS, SPLITS, JOIN = (
    "test_dynamic_conformance",
    "test_dynamic_collector",
    "test_dynamic",
    "test_dynamic_plans",
    "test_dynamic_splits",
    "test_dynamic_join",
)

# Id, kind, the case and the expected result, and its test. "Keys" are the build side's keys.
# Kinds: M, the answer would be wrong otherwise; P, what must be pruned; D, what is reported.
ROWS = [
    ("C03", "M", "three rows over a limit of two: not filtering, each tuple is contained", COLLECT,
     "test_C03_over_the_limit_nothing_is_filtered"),
    ("C04", "M", "one row a thousand times: only distinct bytes count", COLLECT,
     "test_C04_only_distinct_bytes_count"),
    ("C08", "M", "pages {1,2,3}, {3,NULL,4}, {4,5}: 1 to 5, and no NULL", COLLECT,
     "test_C08_null_is_no_key"),
    ("C11", "M", "two keys, one of which is NULL everywhere: nothing can match", COLLECT,
     "test_C11_no_tuple_can_match"),
    ("C12", "M", "no key column: everything is kept", COLLECT, "test_C12_no_columns"),
    ("C20", "P", "two strings, together above the limit: ranges of one point each", COLLECT,
     "test_C20_long_strings_become_points"),
    ("C21", "M", "101 floats and NaN above a limit of 100: a range that has NaN and both zeros",
     COLLECT, "test_C21_floats_become_ranges"),
    ("C22", "P", "repeats and NULL take no space", COLLECT,
     "test_C22_repeats_and_nulls_take_no_space"),
    ("C23", "P", "a type without order: the exact set", COLLECT, "test_C23_types_without_order"),
    ("P03", "M", "the number of builders is not known yet: everything is kept", SPLITS,
     "test_P03_builders_are_not_known_yet"),
    ("P06", "P", "{1,2} and {2,3} on one column: {2}", PLANS,
     "test_P06_P07_a_plan_keeps_what_every_filter_keeps"),
    ("P07", "P", "one of them is complete: it counts already", PLANS,
     "test_P06_P07_a_plan_keeps_what_every_filter_keeps"),
    ("P09", "P", "one key of two columns restricts both", CORE,
     "test_P09_one_key_restricts_two_columns"),
    ("P10", "D", "a caller cancels its wait: others get the filter", SPLITS,
     "test_P10_a_caller_cancels_its_wait"),
    ("P11", "D", "a filter that is not awaitable: no one waits", SPLITS, "test_P11_not_awaitable"),
    ("P12", "D", "the wait ends first: everything is kept, and the plan says that it is late",
     SPLITS, "test_P12_late"),
    ("P14", "M", "a builder runs again with equal keys: nothing happens", SPLITS,
     "test_P14_P15_a_builder_runs_again"),
    ("P15", "M", "with other keys: an error", SPLITS, "test_P14_P15_a_builder_runs_again"),
    ("H02", "P", "a filter before the first request: its splits alone", SPLITS,
     "test_H02_before_the_first_request"),
    ("H06", "M", "LIMIT chooses among what filters leave", PLANS,
     "test_H06_a_limit_counts_rows_after_the_filters"),
    ("V02", "M", "not filtering: rows of any arity are contained", CORE,
     "test_V02_V03_rows_of_another_arity_are_refused"),
    ("V03", "M", "filtering: another arity is an error", CORE,
     "test_V02_V03_rows_of_another_arity_are_refused"),
    ("V05", "M", "texts of partitions become exact values, to the nanosecond", HERE,
     "test_V05_values_of_partitions"),
    ("V08", "M", "null-safe, and no other key: containers with NULL", CORE,
     "test_V08_null_matches_only_null_safe_keys"),
    ("V16", "M", "INT beside BIGINT 2**40: nothing, and no wrapped value", CORE,
     "test_V16_wrapped_values_match_nothing"),
    ("R08", "P", "no tuple lies in the box: pruned", CORE,
     "test_R08_a_box_without_any_tuple_of_keys_is_pruned"),
    ("R10", "P", "probe <= {3,7}: min 8 is pruned", CORE, "test_a_container_is_judged_by_the_keys"),
    ("R12", "P", "probe >= {3,7}: max 2 is pruned", CORE, "test_a_container_is_judged_by_the_keys"),
    ("R14", "M", "an inequality and no keys: nothing", CORE,
     "test_a_container_is_judged_by_the_keys"),
    ("R18", "M", "decimals of another scale, timestamps of another unit: by value", HERE,
     "test_R18_other_scales_and_units"),
    ("J01", "P", "inner and left semi: either side", HERE, "test_J01_either_side"),
    ("J06", "P", "anti: a container of which each row certainly matches", CORE,
     "test_a_container_is_judged_by_the_keys"),
    ("J07", "M", "anti: by ranges, or where nulls are not counted, kept", CORE,
     "test_J07_ranges_never_make_a_container_fully_matched"),
    ("J09", "M", "the key is an expression: nothing is pruned by it", HERE,
     "test_J09_keys_that_are_computed"),
    ("J12", "P", "keys of other names and order", CORE,
     "test_J12_keys_follow_renamed_and_reordered_columns"),
    ("J13", "M", "a branch whose key is a literal keeps its rows", JOIN,
     "test_J13_a_branch_with_a_literal"),
    ("J15", "M", "the key is an aggregate: nothing is pruned below it; a grouping key prunes", HERE,
     "test_J15_aggregates"),
    ("J18", "M", "the build side is streaming: refused", HERE, "test_J18_streams"),
    ("J21", "D", "the partition is fixed by = or <=>: no filter; by > and <: one", HERE,
     "test_J21_partitions_that_are_fixed"),
    ("J23", "P", "three keys prune by all three", CORE, "test_J23_each_of_three_keys_prunes"),
    ("J24", "D", "one key twice, with filters that exclude each other", JOIN,
     "test_J24_filters_are_not_confused"),
]  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_each_row_has_a_test(row):
    assert callable(getattr(importlib.import_module(f"tests.joins.{row[3]}"), row[4]))
    assert row[1] in "MPD" and [r[0] for r in ROWS].count(row[0]) == 1


# Values of partitions, of other scales and units.


def test_V05_values_of_partitions(tmp_path):
    names, kinds = (
        "abcdefg",
        {name: kind for name, (_, kind, _) in zip("abcdefg", V05, strict=True)},
    )
    place = tmp_path.joinpath(*(f"{n}={text}" for n, (text, _, _) in zip(names, V05, strict=True)))
    place.mkdir(parents=True)
    pq.write_table(pa.table({"row": [1]}), place / "0.parquet")
    table = ss.scan_hive(str(tmp_path), partition_schema=kinds)
    row = pa.table(
        {n: pa.array([value]).cast(kind) for n, (_, kind, value) in zip(names, V05, strict=True)}
    )
    assert table.plan(columns=list(names)).to_arrow().equals(row)
    # The value next to each key matches nothing.
    steps = {
        "a": 43,
        "b": 9876543211,
        "c": 40,
        "d": 41,
        "e": "1234 ",
        "f": dt.date(2022, 2, 21),
        "g": np.datetime64("2022-02-22T22:02:20.020223"),
    }
    for name, other in steps.items():
        data = collected(
            schema(**{name: kinds[name]}), pa.table({name: pa.array([other]).cast(kinds[name])})
        )
        assert (
            table.plan(dynamic=[data]).files == ()
            and table.plan(dynamic=[data]).unpruned().count() == 0
        ), name


DECIMAL = pa.decimal128(10, 2)
#    probe side's type, its bounds, build side's type, keys, verdicts
SCALED = [
    (DECIMAL, [("1.00", "1.09"), ("1.10", "1.10"), ("1.11", "9.00")],
     pa.decimal128(12, 4), ["1.1000", "1.1001"], [NEVER, 2, NEVER]),
    (pa.decimal128(30, 4), [("1.0999", "1.0999"), ("1.0999", "1.1001")],
     DECIMAL, ["1.10"], [NEVER, MAYBE]),
    (pa.timestamp("us"), [(0, 999), (1000, 1000)], pa.timestamp("ms"), [1], [NEVER, 2]),
    (pa.timestamp("us"), [(0, 0), (1, 1)], pa.timestamp("ns"), [1000, 1001], [NEVER, 2]),
    (pa.timestamp("ms", "UTC"), [(0, 0), (1, 2)],
     pa.timestamp("us", "UTC"), [1500, 2000], [NEVER, MAYBE]),
    (pa.date32(), [(0, 0), (1, 1)], pa.timestamp("s"), [86_400, 86_401], [NEVER, 2]),
]  # fmt: skip


def typed(values, kind):
    return pa.array(
        values,
        pa.int32()
        if kind == pa.date32()
        else pa.string()
        if pa.types.is_decimal(kind)
        else pa.int64(),
    ).cast(kind)


@pytest.mark.parametrize(
    ("probe", "bounds", "build", "keys", "verdicts"),
    SCALED,
    ids=[f"{p} beside {b}" for p, _, b, _, _ in SCALED],
)
def test_R18_other_scales_and_units(probe, bounds, build, keys, verdicts):
    data = collected(schema(k=probe), pa.table({"k": typed(keys, build)}))
    ends = [typed(ends, probe) for ends in zip(*bounds, strict=True)]
    assert (
        judge(
            data,
            schema(k=probe),
            [((low.as_py(), high.as_py(), 0),) for low, high in zip(*ends, strict=True)],
        )
        == verdicts
    )


# Sides and kinds of joins.


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("how", ["inner", "semi"])
def test_J01_either_side(how, side):
    assert [
        bool(v)
        for v in judge(
            collected(LONG, {"k": [5]}), LONG, [(box(1, 4),), (box(1, 9),)], how=how, side=side
        )
    ] == [False, True]


def rows_of(df):
    return sorted(map(repr, df.collect()))


@pytest.fixture(scope="module")
def sales(tmp_path_factory):
    """Five files, a partition each: day = p, k = 10 p and 10 p + 1."""
    folder = str(tmp_path_factory.mktemp("sales"))
    for p in range(5):
        os.makedirs(f"{folder}/p={p}")
        pq.write_table(
            pa.table({"k": [10 * p, 10 * p + 1], "day": [p, p]}), f"{folder}/p={p}/0.parquet"
        )
    return folder


def same(joined, plain, kept):
    """Check rows against the plain join, and the number of files kept by keys (None:
    keys unused).
    """
    assert rows_of(joined) == rows_of(plain)
    (found,) = pruned(joined)
    assert (found.kept if found.keys else None) == kept, found


def test_J09_keys_that_are_computed(spark, sales):
    fact, dim = spark.read.parquet(sales), spark.sql("SELECT * FROM VALUES (2L), (11L) AS d(x)")
    for key in (fact.day + 1, -fact.k, fact.p + 1):
        same(prune_join(fact, dim, key == dim.x), fact.join(dim, key == dim.x), None)
    table, computed = (
        ss.scan_parquet(sales),
        ss.DynamicFilter(collected(LONG, {"k": [1]}), columns={"k": "day + 1"}),
    )
    with pytest.warns(ss.SkipstoneWarning, match=r"day \+ 1"):
        assert table.plan(dynamic=[computed]).files == table.files


def test_J15_aggregates(spark, sales):
    dim = spark.sql("SELECT * FROM VALUES (2L), (21L) AS d(x)")
    spark.read.parquet(sales).createOrReplaceTempView("sales")
    for key, query, kept in (
        ("s", "SELECT p, sum(day) AS s FROM sales GROUP BY p", None),
        ("day", "SELECT day, sum(k) AS s FROM sales GROUP BY day", 1),
    ):
        by = spark.sql(query)
        same(prune_join(by, dim, {key: "x"}), by.join(dim, by[key] == dim.x), kept)


def test_J18_streams(spark, sales):
    fact, stream = spark.read.parquet(sales), spark.readStream.schema("x BIGINT").parquet(sales)
    for given in (fact, sales):
        joined = prune_join(given, stream, {"k": "x"})
        assert (
            joined.isStreaming
            and pruned(joined)[0].why
            == "the build side is streaming, so its keys are never complete"
        )
    with pytest.raises(ss.DynamicFilterError, match="keys are never complete"):
        ss.DynamicFilterCollector(["k"], LONG).add(stream)


#    condition; whether a filter is added, for a DataFrame and for a table
FIXED = [
    ("p = 1", False),
    ("p <=> 1", False),
    ("p > 1", True),
    ("p < 4", True),
    ("p IN (1, 2)", True),
]


@pytest.mark.parametrize(("where", "added"), FIXED)
def test_J21_partitions_that_are_fixed(spark, sales, where, added):
    fact, dim = spark.read.parquet(sales), spark.sql("SELECT * FROM VALUES (1L), (3L) AS d(x)")
    plain = fact.where(where)
    plain = plain.join(dim, plain.p == dim.x)
    for given in (fact, sales):
        joined = prune_join(given, dim, {"p": "x"}, where=where)
        assert rows_of(joined) == rows_of(plain) and (pruned(joined)[0].keys != "") == added
    anti = prune_join(fact, dim, {"p": "x"}, "anti", where=where)
    assert (
        rows_of(anti) == rows_of(fact.where(where).join(dim, fact.p == dim.x, "anti"))
        and pruned(anti)[0].kept is not None
    )


def test_J21_a_join_here_keeps_its_filter(sales):
    """`ss.join` reads the build side in any case, so the filter costs nothing."""
    table = ss.scan_hive(sales, partition_schema={"p": pa.int32()})
    joined = join_explained(table, pa.table({"p": [3]}), on="p", where_fact="p = 1")
    assert joined.table.num_rows == 0 and joined.plan.files == ()
