"""Arguments of the wrong type raise one line that names the argument and what was expected."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skipstone as ss

FLAG = "expected True or False"
PATH = "expected the path of a file"
NAMES = "expected names of columns"
SPLIT = "expected one that next_split"
ZONE = "expected a region such as"
DIM = pa.table({"x": [1, 2]})


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("wrong") / "t.parquet")
    pq.write_table(pa.table({"x": range(100), "y": range(100)}), path, row_group_size=10)
    return path


def keys():
    collector = ss.DynamicFilterCollector(["x"], DIM.schema)
    collector.add(DIM)
    return collector.finish()


TABLE = [
    # method                  keyword                wrong     message
    ("plan", "dynamic_filtering", "no", FLAG),
    ("plan", "stats_skipping", "x", FLAG),
    ("plan", "stats_skipping", 1, FLAG),
    ("plan", "footers", "x", "expected a number of files"),
    ("plan", "timezone", [], ZONE),
    ("plan", "columns", "x, y", r"a list of names, such as \['x', 'y'\]"),
    ("plan", "columns", "x", r"a list of names, such as \['x'\]"),
    ("plan", "columns", "x,z", r"a list of names, such as \['x,z'\]"),
    ("check", "columns", 3, NAMES),
    ("clustering", "columns", 3, NAMES),
    ("accepted_filter_fields", "candidates", 3, NAMES),
]
PLAN = [
    ("to_arrow", "filter", "no", FLAG),
    ("to_batches", "filter", 0, FLAG),
    ("to_pandas", "filter", None, FLAG),
    ("to_polars", "filter", "no", FLAG),
    ("to_duckdb", "filter", "no", FLAG),
    ("to_duckdb", "con", "x", "expected a connection, such as duckdb.connect()"),
    ("explain", "pages", "no", FLAG),
    ("explain", "program", "no", FLAG),
    ("show", "path", 3, PATH),
    ("show", "columns", 3, NAMES),
    ("with_dynamic", "filters", 3, "expected DynamicFilterData or DynamicFilter"),
]
OTHERS = [
    (lambda path: ss.scan_parquet(path, use_metadata="no"), "use_metadata is 'no'; " + FLAG),
    (lambda path: ss.scan_parquet(path, ignore_table_format=1), "ignore_table_format is 1; "),
    (lambda path: ss.scan_hive(path, infer_types="no"), "infer_types is 'no'; " + FLAG),
    (lambda path: ss.scan_hive(path, schema=3), "schema is 3; expected a pyarrow.Schema"),
    (lambda path: ss.scan_parquet(path).statistics.save(3), "path is 3; " + PATH),
    (lambda path: ss.Statistics.load([]), r"path is \[\]; " + PATH),
    (lambda path: ss.PruningPredicate("x > 1", DIM.schema, timezone={}), ZONE),
    (lambda path: ss.DynamicFilterCollector(["x"], DIM.schema, timezone=3), ZONE),
    (lambda path: ss.DynamicFilterCollector(["x"], DIM.schema, ranges=None), "positive integer"),
    (lambda path: ss.DynamicFilter(awaitable="no"), "awaitable is 'no'; " + FLAG),
    (lambda path: ss.DynamicFilter().report(keys(), []), r"builder is \[\]; expected a number"),
    (lambda path: keys().only(3), "names is 3; expected names of key columns"),
    (lambda path: keys().only(["y"]), "names= names 'y'; the keys are 'x'"),
    (lambda path: keys().contains([None]), "contains got the row None; expected tuples"),
    (lambda path: splits(path).register([]), r"reader is \[\]; expected a number or a name"),
    (lambda path: keys().to_predicate(3), "mapping is 3; expected names of keys"),
    (lambda path: ss.join(DIM, DIM, "x", dynamic_filtering="no"), "dynamic_filtering is 'no'; "),
    (lambda path: ss.join(DIM, DIM, "x", suffix=3), "suffix is 3; expected text"),
    (lambda path: ss.join(DIM, DIM, "x", columns_dim="x,y"), r"such as \['x', 'y'\]"),
    (lambda path: ss.prune_many(3, None), "prune_many was given 3; expected a list"),
    (lambda path: ss.col("x").like("a", escape=3), "expected one character"),
    (lambda path: ss.SplitEnumerator(3), "plan is 3; expected what table.plan"),
    (lambda path: splits(path).return_split(3), SPLIT),
    (lambda path: splits(path).add_splits_back(3), "splits is 3; expected a list"),
    (lambda path: splits(path).add_splits_back(["x"]), SPLIT),
    (lambda path: shards(path).judge("x > 1", on_error=3), "on_error is 3; expected 'keep' or"),
    (lambda path: ss.config.source([]), "expected a name"),
    (lambda path: ss.scan(path).map(["x", "y"]), r"\['x', 'y'\].*write them one by one: 'x', 'y'"),
    (
        lambda path: ss.scan(path).plan().max(["x"]),
        r"max\(\) got \['x'\]; expected a column's name",
    ),
    (lambda path: ss.scan(path).plan().min(None), r"min\(\) got None; expected a column's name"),
    (lambda path: ss.scan(path).plan().splits("host-7"), "readers is 'host-7'; expected numbers"),
    (lambda path: ss.join(DIM, [{"x": "a"}], "x"), "column 'x' of a dict is 'a'; expected a list"),
]


@pytest.mark.parametrize("options", [{"on": "x", "where": "x > 1"}, {}])
def test_an_unknown_or_missing_argument_of_join(options):
    with pytest.raises(TypeError, match=r"^join\(\) (got an unexpected|missing a required) .*arg"):
        ss.join(DIM, DIM, **options)


def shards(path):
    ss.scan_parquet(path).statistics.save_shards(f"{path}.shards")
    return ss.Shards.open(f"{path}.shards")


def splits(path):
    return ss.scan_parquet(path).plan().splits()


@pytest.mark.parametrize(("method", "keyword", "wrong", "message"), TABLE)
def test_methods_of_tables(path, method, keyword, wrong, message):
    refuses(lambda: getattr(ss.scan_parquet(path), method)(**{keyword: wrong}), keyword, message)


@pytest.mark.parametrize(("method", "keyword", "wrong", "message"), PLAN)
def test_methods_of_plans(path, method, keyword, wrong, message):
    plan = ss.scan_parquet(path).plan("x > 5")
    said = "dynamic has 3" if keyword == "filters" else keyword
    refuses(lambda: getattr(plan, method)(**{keyword: wrong}), said, message)


@pytest.mark.parametrize(("call", "message"), OTHERS)
def test_other_calls(path, call, message):
    with pytest.raises((ss.SkipstoneError, AttributeError), match=message) as e:
        call(path)
    assert "\n" not in str(e.value)


def refuses(call, said, message):
    with pytest.raises(ss.SkipstoneError, match=message) as e:
        call()
    assert str(e.value).startswith(said)
    assert "\n" not in str(e.value)
