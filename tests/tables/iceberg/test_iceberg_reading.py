"""Read Iceberg files that lack columns or hold nested values."""

import datetime as dt

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import (
    DateType,
    DoubleType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    UUIDType,
)

import skipstone as ss
from tests.support.tables.iceberg_tables import (
    commit,
    data_file,
    equality_deletes,
    make,
    with_ids,
)


def test_defaults_and_required_columns(tmp_path):
    """Files from before a column was added have its default in every row, and no statistics."""
    kinds = Schema(
        NestedField(1, "x", LongType(), required=True),
        NestedField(2, "st", StructType(NestedField(3, "a", IntegerType(), required=True))),
    )
    source = make(tmp_path, kinds, format_version="3")
    path = f"{tmp_path}/one.parquet"
    structs = pa.StructArray.from_arrays(
        [pa.array([1, 2], pa.int32())],
        fields=[pa.field("a", pa.int32(), metadata={"PARQUET:field_id": "3"})],
    )
    schema = pa.schema(
        [
            pa.field("x", pa.int64(), metadata={"PARQUET:field_id": "1"}),
            pa.field("st", structs.type, metadata={"PARQUET:field_id": "2"}),
        ]
    )
    pq.write_table(pa.Table.from_arrays([pa.array([5, 6]), structs], schema=schema), path)
    source = commit(source, [data_file(path, (), 2)])
    with source.update_schema() as update:
        update.add_column("n", LongType(), default_value=7)
        update.add_column("day", DateType(), default_value=dt.date(2023, 1, 1))
        update.add_column("s", StringType())
        update.add_column(("st", "b"), StringType(), default_value="old")
    t = ss.scan_iceberg(source.refresh())
    assert t.plan("n = 7").to_arrow().to_pylist() == [
        {"x": x, "st": {"a": x - 4, "b": "old"}, "n": 7, "day": dt.date(2023, 1, 1), "s": None}
        for x in (5, 6)
    ]
    assert (
        t.plan("n IS NULL").count() == 0
        and t.plan("s IS NULL").count() == 2
        and t.plan("st.b = 'old'").count() == 2
    )
    assert t.plan(columns=["x"]).to_arrow().schema == pa.schema(
        [pa.field("x", pa.int64(), nullable=False)]
    )


def test_columns_that_files_lack(tmp_path):
    """A missing column of any type is NULL in every row."""
    source = make(tmp_path, Schema(NestedField(1, "x", LongType())))
    source.append(pa.table({"x": [1, 2]}))
    with source.update_schema() as update:
        update.add_column("st", StructType(NestedField(10, "a", IntegerType())))
        update.add_column("l", ListType(20, StringType(), element_required=False))
        update.add_column("m", MapType(30, StringType(), 31, LongType(), value_required=False))
        update.add_column("u", UUIDType())
    t = ss.scan_iceberg(source.refresh())
    assert t.plan("st.a IS NULL").to_arrow().to_pylist() == [
        {"x": x, "st": None, "l": None, "m": None, "u": None} for x in (1, 2)
    ]
    assert (
        t.plan(columns=["l"]).to_arrow().num_rows == 2
        and t.plan("u IS NOT NULL", columns=["m"]).to_arrow().num_rows == 0
    )


NAMES = '[{"field-id": 1, "names": ["x"]}, {"field-id": 2, "names": ["p"]}]'


@pytest.mark.parametrize("named", [False, True], ids=["ids", "name mapping"])
@pytest.mark.parametrize("own", [[7, 8, 9], ["b", None, "a"], ["a", "a", "a"]], ids=str)
@pytest.mark.parametrize("partition", ["a", None])
@pytest.mark.parametrize("deleted", [False, True])
def test_a_column_that_the_partition_also_has(named, own, partition, deleted, tmp_path):
    """The partition's value counts, as in Spark, though the file has other values or types."""
    kinds = Schema(NestedField(1, "x", LongType()), NestedField(2, "p", StringType()))
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "p"))
    source, path = make(tmp_path, kinds, spec), f"{tmp_path}/added.parquet"
    rows = pa.table({"x": [1, 2, 3], "p": own})
    if named:
        with source.transaction() as update:
            update.set_properties({"schema.name-mapping.default": NAMES})
    else:
        rows = rows.cast(with_ids([("x", pa.int64(), 1), ("p", rows.schema.field("p").type, 2)]))
    pq.write_table(rows, path)
    source = commit(source.refresh(), [data_file(path, (partition,), 3)])
    if deleted:
        source = equality_deletes(source, pa.table({"x": [9]}), [1], (partition,))
    table = ss.scan_iceberg(source)
    matching = "p = 'a'" if partition else "p IS NULL"
    for where in (None, matching, f"x > 0 AND {matching}", f"x <= 1 OR {matching}"):
        expected = [{"x": x, "p": partition} for x in (1, 2, 3)]
        assert table.plan(where).to_arrow().to_pylist() == expected, where
    for where in ("p = 'b'", "x > 5 OR p = 'b'", "x > 5 AND p IS NOT NULL"):
        assert table.plan(where).to_arrow().num_rows == 0, where


def nested_file(folder, schema):
    """Write a file of lists whose fields have the table's ids."""

    def field(name, kind, path):
        return pa.field(
            name, kind, metadata={"PARQUET:field_id": str(schema.find_field(path).field_id)}
        )

    items = field(
        "element",
        pa.struct([field("b", pa.string(), "l.element.b"), field("a", pa.int32(), "l.element.a")]),
        "l.element",
    )
    rows = pa.array([None, [{"b": "y", "a": 7}], [None]], pa.list_(items))
    pq.write_table(
        pa.Table.from_arrays([rows], schema=pa.schema([field("other", rows.type, "l")])),
        f"{folder}/nested.parquet",
    )
    return f"{folder}/nested.parquet"


@pytest.mark.parametrize("text", ["{", "[1]", '[{"field-id": 1}]'])
def test_a_name_mapping_that_is_none_is_an_error_of_one_line(text, tmp_path):
    """Iceberg refuses it as well, even where files have ids."""
    properties = {"schema_name-mapping_default": text}
    source = make(tmp_path / "t", Schema(NestedField(1, "x", LongType())), **properties)
    path = str(tmp_path / "data.parquet")
    rows = pa.table([[1, 7]], schema=with_ids([("x", pa.int64(), 1)]))
    pq.write_table(rows, path)
    table = ss.scan_iceberg(commit(source, [data_file(path, rows=2)]))
    assert table.plan("x > 5").files == (path,)
    with pytest.raises(ss.SourceError, match="holds no name mapping") as e:
        table.plan("x > 5").to_arrow()
    assert "\n" not in str(e.value)


@pytest.mark.parametrize("layout", [pa.list_, pa.large_list, lambda item: pa.list_(item, 2)])
def test_fields_of_lists_in_each_layout(layout, tmp_path):
    """pyiceberg writes large lists. Fields are found by id, and absent ones have defaults."""
    item = StructType(NestedField(3, "a", IntegerType()), NestedField(4, "b", StringType()))
    kinds = Schema(NestedField(1, "l", ListType(2, item, element_required=False)))
    source, path = make(tmp_path, kinds, format_version="3"), f"{tmp_path}/one.parquet"
    fields = pa.struct(with_ids([("a", pa.int32(), 3), ("b", pa.string(), 4)]))
    element = pa.field("element", fields, metadata={"PARQUET:field_id": "2"})
    schema = with_ids([("l", layout(element), 1)])
    lists = [[{"a": 1, "b": "x"}, None], None, [{"a": None, "b": "y"}, {"a": 2, "b": None}]]
    pq.write_table(pa.table([pa.array(lists, schema.field("l").type)], schema=schema), path)
    source = commit(source, [data_file(path, (), 3)])
    with source.update_schema() as update:
        update.rename_column(("l", "element", "a"), "c")
        update.update_column(("l", "element", "a"), LongType())
        update.delete_column(("l", "element", "b"))
    with source.update_schema() as update:
        update.add_column(("l", "b"), LongType())
        update.add_column(("l", "d"), StringType(), default_value="old")
    table = ss.scan_iceberg(source.refresh())
    first, second = ([{"c": c, "b": None, "d": "old"} for c in pair] for pair in ([1], [None, 2]))
    expected = [{"l": [*first, None]}, {"l": None}, {"l": second}]
    assert table.plan().to_arrow().to_pylist() == expected
    assert table.plan("l IS NOT NULL").to_arrow().to_pylist() == [expected[0], expected[2]]


def test_nested_values(tmp_path):
    """Lists and maps of structs whose fields were renamed, added and promoted."""
    kinds = Schema(
        NestedField(
            1,
            "l",
            ListType(
                2,
                StructType(NestedField(3, "a", IntegerType()), NestedField(4, "b", StringType())),
                element_required=False,
            ),
        ),
        NestedField(
            5,
            "m",
            MapType(
                6,
                StringType(),
                7,
                StructType(NestedField(8, "v", FloatType())),
                value_required=False,
            ),
        ),
    )
    source = make(tmp_path, kinds)
    item, value = (
        pa.struct([("a", pa.int32()), ("b", pa.string())]),
        pa.struct([("v", pa.float32())]),
    )
    rows = [[[{"a": 1, "b": "x"}, None], None, []], [[("k", {"v": 0.5}), ("n", None)], None, []]]
    source.append(
        pa.table(
            rows, schema=pa.schema([("l", pa.list_(item)), ("m", pa.map_(pa.string(), value))])
        )
    )
    source = commit(source.refresh(), [data_file(nested_file(tmp_path, source.schema()), (), 3)])
    with source.update_schema() as update:
        update.rename_column(("l", "element", "a"), "c")
        update.update_column(("l", "element", "a"), LongType())
        update.add_column(("l", "d"), StringType())
        update.update_column(("m", "value", "v"), DoubleType())
    source = source.refresh()
    t = ss.scan_iceberg(source)
    found = t.plan().to_arrow().to_pylist()
    # pyiceberg writes and reads a NULL list of structs as an empty one.
    assert [{**row, "l": row["l"] or []} for row in found] == source.scan().to_arrow().to_pylist()
    assert t.plan("l IS NULL").count() == sum(row["l"] is None for row in found) == 1
