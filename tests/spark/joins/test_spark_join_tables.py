"""Pruned joins of Hive, Delta and Iceberg tables and shards, for every kind of join.

Each is compared with the plain join of the same rows.
"""

import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skipstone as ss
from skipstone.bindings.spark.reading.paths import spark_path
from skipstone.spark import prune_join, pruned, read
from tests.support.effort import LONG
from tests.support.spark.reads import rows_of
from tests.support.spark.session import QUIET, SPARK_4

pytestmark = [pytest.mark.filterwarnings(QUIET), SPARK_4]

FILES = 6
NAN = float("nan")


def rows(i):
    """Return the rows of file i.

    day is i, and NULL in the last file; k counts from 10 i, with one NULL; f has NaN.
    """
    day = None if i == FILES - 1 else i
    return pa.table(
        {
            "k": pa.array([10 * i, 10 * i + 1, None if i == 2 else 10 * i + 2], pa.int64()),
            "f": pa.array([i / 2, -0.0, NAN if i == 3 else 1.5]),
            "day": pa.array([day] * 3, pa.int32()),
        }
    )


@pytest.fixture(scope="module", params=["hive", "delta", "iceberg"])
def lake(request, spark, tmp_path_factory):
    """Make a table partitioned by day; return it, its path, and its rows as a plain DataFrame.

    In Delta and Iceberg tables, row 0 is deleted.
    """
    folder = str(tmp_path_factory.mktemp(request.param))
    live = pa.concat_tables([rows(i) for i in range(FILES)])
    if request.param == "hive":
        for i in range(FILES):
            place = f"{folder}/day={'__HIVE_DEFAULT_PARTITION__' if i == FILES - 1 else i}"
            os.makedirs(place)
            pq.write_table(rows(i).drop_columns("day"), f"{place}/0.parquet")
        given = folder
    elif request.param == "delta":
        deltalake = pytest.importorskip("deltalake")
        for i in range(FILES):
            deltalake.write_deltalake(folder, rows(i), mode="append", partition_by=["day"])
        deltalake.DeltaTable(folder).delete("k = 0")
        live, given = live.slice(1), folder
    else:
        live, given = live.slice(1), iceberg(folder)
    return given, spark.createDataFrame(live)


def iceberg(folder):
    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.transforms import IdentityTransform
    from pyiceberg.types import DoubleType, IntegerType, LongType, NestedField

    from tests.support.tables import iceberg_tables

    schema = Schema(
        NestedField(1, "k", LongType()),
        NestedField(2, "f", DoubleType()),
        NestedField(3, "day", IntegerType()),
    )
    table = iceberg_tables.make(
        folder, schema, PartitionSpec(PartitionField(3, 1000, IdentityTransform(), "day"))
    )
    for i in range(FILES):
        table = iceberg_tables.append(table, rows(i))
    first = next(
        f.file_path for t in table.scan().plan_files() for f in [t.file] if f.partition[0] == 0
    )
    return iceberg_tables.position_deletes(table, [(first, 0)], partition=(0,))


#    how, side of the table, keys, the key column; files kept
JOINS = [
    ("inner", "left", "(11L), (12L), (77L), (NULL)", "k", 1),
    ("semi", "left", "(1), (3), (NULL)", "day", 2),
    ("anti", "left", "(1), (3), (NULL)", "day", FILES - 2),
    (
        "anti",
        "left",
        "(0L), (1L), (2L), (20L), (21L), (22L)",
        "k",
        FILES,
    ),  # a key of file 2 is NULL, and Delta and Iceberg count deleted rows
    (
        "left",
        "right",
        "(double('NaN')), (2.5D)",
        "f",
        None,
    ),  # only Iceberg says which files may hold NaN
    ("semi", "right", "(4)", "day", 1),
]
if LONG:
    JOINS += [
        ("right", "left", "(21S), (5S)", "k", 1),
        ("left", "left", "(4)", "day", FILES),
        ("full", "right", "(4)", "day", FILES),
    ]


def plain_join(table, dim, on, how, side):
    pair = (table, dim) if side == "left" else (dim, table)
    return pair[0].join(pair[1], table[on] == dim.x, how)


@pytest.mark.parametrize(
    ("how", "side", "values", "on", "kept"),
    JOINS,
    ids=[f"{how}-{side}-{on}" for how, side, _, on, _ in JOINS],
)
def test_each_kind_of_table(spark, lake, how, side, values, on, kept):
    given, plain = lake
    dim = spark.sql(f"SELECT * FROM VALUES {values} AS d(x)")
    joined = prune_join(given, dim, {on: "x"}, how, side=side)
    assert rows_of(joined) == rows_of(plain_join(plain, dim, on, how, side))
    found = pruned(joined)[0].kept
    if kept == FILES and how == "anti":  # file 0 is fully matched if its deleted row is known
        assert found in (FILES - 1, FILES)
    elif kept is not None:
        assert found == kept, pruned(joined)


def test_conditions_and_two_keys(spark, lake):
    given, plain = lake
    dim = spark.sql("SELECT * FROM VALUES (1, 11L), (3, 20L), (NULL, 51L) AS d(day, k)")
    joined = prune_join(given, dim, ["day", "k"], where="f < 1")
    assert (
        rows_of(joined) == rows_of(plain.where("f < 1").join(dim, ["day", "k"]))
        and pruned(joined)[0].kept == 1
    )
    safe = prune_join(given, dim, ["day", "k"], "semi", null_safe=True)
    by = plain.day.eqNullSafe(dim.day) & plain.k.eqNullSafe(dim.k)
    assert rows_of(safe) == rows_of(plain.join(dim, by, "semi")) and pruned(safe)[0].kept == 2


# Shards.


@pytest.fixture(scope="module")
def sharded(spark, tmp_path_factory):
    """Return shards of the files' row groups, two per shard, and the table as Spark reads it."""
    folder, stats = str(tmp_path_factory.mktemp("sharded")), tmp_path_factory.mktemp("shards")
    for i in range(FILES):
        pq.write_table(rows(i), f"{folder}/{i} [x].parquet", row_group_size=2)
    table = ss.scan_parquet(folder)
    paths = [
        path for path, groups in table.row_groups_of(table.plan().kept).items() for _ in groups
    ]
    table.statistics.save_shards(stats, rows=2, about=pa.table({"path": paths}))
    return ss.Shards.open(stats), read(spark, table)


@pytest.mark.parametrize(
    ("how", "side", "values", "on", "kept"),
    JOINS,
    ids=[f"{how}-{side}-{on}" for how, side, _, on, _ in JOINS],
)
def test_shards(spark, sharded, how, side, values, on, kept):
    shards, plain = sharded
    dim = spark.sql(f"SELECT * FROM VALUES {values} AS d(x)")
    joined = prune_join(shards, dim, {on: "x"}, how, side=side)
    assert rows_of(joined) == rows_of(plain_join(plain, dim, on, how, side))
    assert pruned(joined)[0].kept == (
        {"f": FILES}.get(on, kept) if how != "anti" or on == "day" else FILES - 1
    ), pruned(joined)


def test_executors_judge_shards(spark, sharded, monkeypatch):
    """Conditions and several keys go to the executors; if there are too many keys, as ranges."""
    from skipstone.bindings.spark.pruning import join_shards

    shards, plain = sharded
    seen = []

    def there(*args, **options):
        seen.append(args[2])
        return ss.spark.prune_shards(*args, **options, where="executors", tasks=2)

    monkeypatch.setattr(join_shards, "prune_shards", there)
    dim = spark.sql("SELECT CAST(id AS INT) AS day, 10 * id AS k FROM range(1, 4)")
    for options, kept in (({}, 1), ({"max_values": 1}, 1), ({"null_safe": True}, 1)):
        joined = prune_join(shards, dim, ["day", "k"], where="f < 1 AND k < 20", **options)
        expected = plain.where("f < 1 AND k < 20")
        by = (
            ["day", "k"]
            if not options.get("null_safe")
            else expected.day.eqNullSafe(dim.day) & expected.k.eqNullSafe(dim.k)
        )
        assert (
            rows_of(joined) == rows_of(expected.join(dim, by)) and pruned(joined)[0].kept == kept
        ), pruned(joined)
    assert (
        seen[0].expr.startswith("f < ")
        and "IN (1, 2, 3)" in seen[0].expr
        and ">= 1" in seen[1].expr
        and "IS NULL" not in seen[2].expr
    )


def test_fully_pruned_shards(spark, sharded):
    shards, plain = sharded
    dim = spark.sql("SELECT 99L AS k, 'x' AS name")
    for how in ("inner", "semi", "right"):
        joined, expected = prune_join(shards, dim, "k", how), plain.join(dim, "k", how)
        assert (
            rows_of(joined) == rows_of(expected)
            and joined.schema == expected.schema
            and pruned(joined)[0].kept == 0
        )
    by_hand = prune_join(
        shards, dim, "k", "right", read=lambda paths: spark.read.parquet(*map(spark_path, paths))
    )
    assert rows_of(by_hand) == rows_of(plain.join(dim, "k", "right"))


def test_shards_in_connect(connect, sharded):
    shards, plain = sharded
    dim = connect.sql("SELECT * FROM VALUES (1, 11L), (3, 20L) AS d(day, k)")
    joined = prune_join(shards, dim, ["day", "k"], "left", side="right", where="f < 2")
    assert sorted(map(str, joined.collect())) == [
        *sorted(map(str, plain.where("k = 11").select("day", "k", "f").collect())),
        "Row(day=3, k=20, f=None)",
    ]
    assert pruned(joined)[0].kept == 1


def test_how_shards_are_read(spark, sharded, tmp_path):
    """Partition folders, relative paths and hidden files are refused; a function can read them."""
    shards, plain = sharded
    dim, stats = spark.sql("SELECT 3 AS day"), shards.statistics(0)
    for path, why in (
        (None, "have no path"),
        ("part/0.parquet", "not absolute"),
        ("/t/day=3/0.parquet", "partition folders"),
        ("/t/_0.parquet", "begins with"),
    ):
        stats.save_shards(
            tmp_path, about=pa.table({"path": pa.array([path] * len(stats), pa.string())})
        )
        unusual = ss.Shards.open(tmp_path)
        with pytest.raises(ss.SourceError, match=why):
            prune_join(unusual, dim, {"day": "day"}, "left")
    stats.save_shards(tmp_path)
    unnamed = ss.Shards.open(tmp_path)
    with pytest.raises(ss.SourceError, match="do not say where their files are"):
        prune_join(unnamed, dim, "day")
    paths_read = []
    joined = prune_join(
        shards,
        dim,
        "day",
        where="k > 30",
        read=lambda paths: paths_read.extend(paths) or spark.read.parquet(*map(spark_path, paths)),
    )
    assert rows_of(joined) == rows_of(plain.where("k > 30").join(dim, "day")) and [
        os.path.basename(p) for p in paths_read
    ] == ["3 [x].parquet"]


def test_the_build_side_is_fixed_when_files_are_chosen(spark, tmp_path):
    """Later rows of the dimension would find no partners in the files that were left out."""
    for i in range(FILES):
        pq.write_table(rows(i), tmp_path / f"{i}.parquet")
    try:
        spark.sql(
            f"CREATE TABLE taken USING parquet LOCATION '{(tmp_path / 'taken').as_uri()}' "
            "AS SELECT 11L AS k"
        )
        joined = prune_join(
            ss.scan_parquet([str(tmp_path / f"{i}.parquet") for i in range(FILES)]),
            spark.table("taken"),
            "k",
        )
        spark.sql("INSERT INTO taken VALUES (31L)")
        assert pruned(joined)[0].kept == 1 and [row["k"] for row in joined.collect()] == [11]
    finally:
        spark.sql("DROP TABLE IF EXISTS taken")
