"""Many tables joined by one key: each join's keys are used once, and the rows are plain Spark's."""

from itertools import combinations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from skipstone.bindings.spark.pruning.joins import OTHER, Joins
from skipstone.bindings.spark.pruning.prune_by_joins import _JoinPruner
from skipstone.spark import prune
from tests.support.spark.automatic import automatic
from tests.support.spark.reads import rows_of
from tests.support.spark.session import QUIET

pytestmark = pytest.mark.filterwarnings(QUIET)
TABLES = 9
PAIRS = list(combinations(range(TABLES), 2))

#  which tables each condition joins
SHAPES = [
    [(i, i + 1) for i in range(TABLES - 1)],
    [(0, i) for i in range(1, TABLES)],
    [(i, j) for i, j in PAIRS if j - i <= 2],
    PAIRS,
]


@pytest.fixture(scope="module")
def tables(spark, tmp_path_factory):
    folder = tmp_path_factory.mktemp("many")
    for number in range(TABLES):
        (folder / f"m{number}").mkdir()
        for file in range(4):
            keys = range(file * 10, file * 10 + 10)
            rows = pa.table({"k": pa.array(keys, pa.int32()), "s": [f"s{k:02}" for k in keys]})
            pq.write_table(rows, folder / f"m{number}" / f"{file}.parquet")
        spark.read.parquet(str(folder / f"m{number}")).createOrReplaceTempView(f"m{number}")
    return folder


def query(shape):
    joined = " AND ".join(f"m{i}.k = m{j}.k" for i, j in shape)
    names = ", ".join(f"m{i}" for i in range(TABLES))
    return f"SELECT m0.k, m4.s FROM {names} WHERE {joined} AND m{TABLES - 1}.s LIKE 's2%'"


@pytest.fixture
def sources(monkeypatch):
    """Collect the sources of keys that are considered, with the number of scans in their plans."""
    found = []
    build_sides = _JoinPruner._build_sides

    def noted(pruner):
        for build in build_sides(pruner):
            plan = pruner.joins.keys(build.join.number, OTHER[build.side], build.above)
            found.append((build, plan.collectLeaves().size()))
            yield build

    monkeypatch.setattr(_JoinPruner, "_build_sides", noted)
    return found


@pytest.mark.parametrize("shape", SHAPES, ids=["chain", "star", "pairs", "all"])
def test_keys_of_each_table_are_used_once(spark, tables, sources, shape):
    df = spark.sql(query(shape))
    expected = rows_of(df)
    assert rows_of(prune(df)) == expected
    assert sources
    for build, leaves in sources:
        assert len(build.above) == len(set(build.above))
        assert len(build.scans) == len(set(build.scans)) <= TABLES
        assert leaves <= TABLES


def test_plans_of_keys_are_not_asked_for_again_and_again(spark, tables, monkeypatch):
    asked = []
    keys = Joins.keys

    def noted(joins, *of):
        asked.append(of)
        return keys(joins, *of)

    monkeypatch.setattr(Joins, "keys", noted)
    prune(spark.sql(query(PAIRS)))
    assert len(asked) <= 2 * TABLES**2


def test_every_table_is_pruned(spark, tables):
    df = spark.sql(query(PAIRS))
    rows, opened = automatic(df)
    assert rows == rows_of(df)
    assert len(rows) == 10
    assert sum(opened) == TABLES
