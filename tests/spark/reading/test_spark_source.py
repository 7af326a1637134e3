"""`spark.read.format("skipstone")`, and the Spark bug that forbids pushing filters into it."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skipstone as ss
from skipstone.spark import register
from tests.support.spark.session import QUIET
from tests.support.tables.delta_log import Log, Written, delta_schema, rows_of
from tests.support.tables.iceberg_tables import append, make

pytestmark = pytest.mark.filterwarnings(QUIET)


def loading(session):
    """Return a function that loads tables in a session."""
    register(session)
    return lambda path, **options: (
        session.read.format("skipstone").options(**options).load(str(path))
    )


@pytest.fixture(scope="module")
def source(spark):
    return loading(spark)


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    """Make a folder with a table of each format: x from 0 to 29, ten rows per file."""
    root = tmp_path_factory.mktemp("lake")
    log = Log(
        root / "delta",
        delta_schema("x BIGINT, p DATE, q TIMESTAMP, n STRUCT<v: ARRAY<INT>, `w.w`: DECIMAL(9,2)>"),
        ["p"],
        features=("deletionVectors",),
    )
    for i in range(3):
        data = [
            {
                "x": 10 * i + k,
                "q": f"2024-01-01T0{i}:00:00Z",
                "n": {"v": [k, None], "w.w": f"{k}.25"},
            }
            for k in range(10)
        ]
        log.add(
            Written(
                data, {"p": None if i == 2 else f"2024-01-0{i + 1}"}, dead=[1] if i == 1 else None
            )
        )
        for kind in ("parquet", f"hive/k={i}"):
            (root / kind).mkdir(parents=True, exist_ok=True)
            table = pa.table(
                {
                    "x": [r["x"] for r in data],
                    "u": pa.array(range(10), pa.uint16()),
                    "m": pa.array([[("a", 1)]] * 10, pa.map_("string", "int64")),
                }
            )
            pq.write_table(table, root / kind / f"{i}.parquet")
    return root


@pytest.mark.parametrize("kind", ["delta", "parquet", "hive"])
def test_rows(source, lake, kind):
    table = {"delta": ss.scan_delta, "hive": ss.scan_hive, "parquet": ss.scan_parquet}[kind](
        lake / kind
    )
    for where in ("x BETWEEN 8 AND 12", ""):
        df = source(lake / kind, where=where, format=kind)
        found = df.toArrow()
        assert found.column_names == table.schema.names
        assert [r["x"] for r in sorted(found.to_pylist(), key=lambda r: r["x"])] == sorted(
            table.plan(where or None).to_arrow()["x"].to_pylist()
        )
    assert rows_of(found.drop_columns(["u"] if kind != "delta" else [])) == rows_of(
        table.plan().to_arrow().drop_columns(["u"] if kind != "delta" else [])
    )


def test_over_connect(connect, lake):
    load = loading(connect)
    assert sorted(r.x for r in load(lake / "delta", where="x BETWEEN 8 AND 12").collect()) == [
        8,
        9,
        10,
        12,
    ]


def test_columns(source, lake):
    assert source(lake / "delta", where="x > 1000").collect() == []
    assert source(lake / "delta", columns="p, x", where="x = 20").collect() == [(None, 20)]
    narrowed = source(lake / "delta", where="x = 20")
    assert narrowed.sparkSession.read.format("skipstone").option("where", "x = 20").schema(
        "X BIGINT"
    ).load(str(lake / "delta")).collect() == [(20,)]


def test_versions_and_snapshots(spark, lake, tmp_path):
    register(spark)
    from pyiceberg.schema import Schema
    from pyiceberg.types import LongType, NestedField

    load = spark.read.format("skipstone")
    assert load.option("version", 1).load(str(lake / "delta")).count() == 10
    first = append(make(tmp_path, Schema(NestedField(1, "x", LongType()))), pa.table({"x": [1, 2]}))
    number = first.current_snapshot().snapshot_id
    second = append(first, pa.table({"x": [3]}))
    one = spark.read.format("skipstone").option("snapshot", number)
    assert (
        one.load(second.metadata_location).count(),
        spark.read.format("skipstone").load(second.metadata_location).count(),
    ) == (2, 3)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"wher": "x = 1"}, "the option 'wher' is not known"),
        ({"where": "y = 1"}, "predicate names 'y'"),
        ({"columns": "x,y"}, "the option 'columns' names 'y'"),
        ({"format": "orc"}, "format is 'orc'; expected parquet"),
        ({"ansi": "maybe"}, "the option ansi is 'maybe'; expected true or false"),
        ({"where": "q < TIMESTAMP '2024-01-01 00:00:00'"}, "depends on a time zone"),
        ({"where": "CAST(q AS DATE) = DATE '2024-01-01'"}, "depends on a time zone"),
    ],
)
def test_refusals(lake, options, message):
    """Errors are raised when a table is loaded, by the class that Spark calls."""
    from skipstone.bindings.spark.reading.data_source import ReadRequest

    with pytest.raises(ss.SkipstoneError, match=message):
        ReadRequest({"path": str(lake / "delta")} | options)


def test_refusals_reach_the_user(source, lake):
    with pytest.raises(Exception, match="the option 'wher' is not known"):
        _ = source(lake / "delta", wher="x = 1").schema
    assert (
        source(
            lake / "delta", where="q < TIMESTAMP '2024-01-01 00:30:00'", timezone="Europe/Berlin"
        ).count()
        == 0
    )


def test_a_reader_that_was_copied_plans_nothing(spark, lake):
    import pickle

    from skipstone.bindings.spark.reading.data_source import PlanReader, ReadRequest

    request = ReadRequest({"path": str(lake / "delta")})
    with pytest.raises(ss.SourceError, match="ask the reader that planned"):
        _ = pickle.loads(pickle.dumps(PlanReader(request, request.schema()))).groups


def test_spark_finds_it_by_the_name_of_its_module():
    pytest.importorskip("pyspark")
    from pyspark.sql.datasource import DataSource, DataSourceReader

    from pyspark_skipstone import DefaultSource, Reader

    assert issubclass(DefaultSource, DataSource) and DefaultSource.name() == "skipstone"
    assert getattr(Reader, "pushFilters", None) is getattr(
        DataSourceReader, "pushFilters", None
    )  # not implemented: see below


def test_sparks_bug_with_pushed_filters(spark):
    """Spark does not plan a data source again that drops rows by pushed filters.

    Such a source may drop them, but another query then gets its rows. If this test fails, Spark has
    fixed the bug: find the version, and let `pyspark_skipstone.Reader` implement `pushFilters` from
    that version on.
    """
    from pyspark.sql import datasource

    if not hasattr(datasource, "EqualTo"):
        pytest.skip("Spark pushes filters into Python data sources from version 4.1 on")

    class Reader(datasource.DataSourceReader):
        wanted = None

        def pushFilters(self, filters):
            for f in filters:
                if isinstance(f, datasource.EqualTo):
                    self.wanted = f.value
                else:
                    yield f

        def read(self, partition):
            yield from ((k,) for k in range(10) if self.wanted in (None, k))

    class Source(datasource.DataSource):
        name = classmethod(lambda cls: "pushes_filters")

        def schema(self):
            return "k INT"

        def reader(self, schema):
            return Reader()

    setting = "spark.sql.python.filterPushdown.enabled"
    before = spark.conf.get(setting)
    spark.conf.set(setting, "true")
    try:
        spark.dataSource.register(Source)
        df = spark.read.format("pushes_filters").load()
        first, second = df.where("k = 5").count(), df.count()
        assert (first, second) != (1, 10), (
            f"Spark {spark.version} plans a data source again for a query without filters: "
            "pushFilters may be implemented"
        )
        assert first == 1 and second < 10
    finally:
        spark.conf.set(setting, before)
