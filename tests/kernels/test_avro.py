"""Test the Avro decoder against pyiceberg's: equal on whole files, never different on damaged."""

import json
import zlib

import numpy as np
import pytest

from skipstone.bindings.tables.iceberg import fallback
from skipstone.bindings.tables.iceberg.manifest import decode
from skipstone.ir.errors import SourceError
from skipstone.kernels.decode import avro, avro_records
from skipstone.kernels.decode.avro import Container
from skipstone.kernels.decode.avro_program import Unsupported, program_of
from skipstone.kernels.run.loops import compiled, plain
from tests.fuzz.avro import check, check_list, mutated, ours, theirs
from tests.fuzz.avro_files import LISTS, bases, written
from tests.support.tables.avro import avro_file, record, text, varint

BASES = bases()


@pytest.fixture(params=["compiled", "plain"])
def loops(request, monkeypatch):
    """Run a test with compiled loops, and as a new process does, whose loops Python runs."""
    for module in (avro, avro_records):
        monkeypatch.setattr(
            module,
            "compiled_or_plain",
            lambda loop, size: (compiled if request.param == "compiled" else plain)(loop),
        )


@pytest.mark.parametrize("data", BASES.values(), ids=BASES)
def test_whole_files(data, loops):
    assert check(data) == "same"


@pytest.mark.parametrize("data", BASES.values(), ids=BASES)
def test_the_other_decoder(data):
    """A file that pyiceberg reads and rewrites decodes like the original."""
    again = fallback.rewritten(data, Unsupported("a reason"))
    first, second = (ours(decode(d, "m.avro", 0, 9)) for d in (data, again))
    assert first == second


@pytest.mark.parametrize("name", BASES)
def test_every_cut(name, loops):
    """A truncated file is refused, except at the boundaries of blocks, which the manifest list
    detects.
    """
    data = BASES[name]
    for n in range(0, len(data), 7):
        assert check(data[:n]) in ("refused", "same")


@pytest.mark.parametrize("case", range(250))
def test_damage(case, loops):
    r = np.random.default_rng(10**6 + case)
    assert check(mutated(list(BASES.values())[case % len(BASES)], r)) in (
        "refused",
        "same",
        "unknown",
    )


@pytest.mark.parametrize("name", LISTS)
def test_manifest_lists(name, loops):
    assert check_list(LISTS[name]) == "same"
    for n in range(0, len(LISTS[name]), 7):
        assert check_list(LISTS[name][:n]) in ("refused", "same")
    for case in range(150):
        assert check_list(mutated(LISTS[name], np.random.default_rng(2 * 10**6 + case))) in (
            "refused",
            "same",
            "unknown",
        )


def test_partitions():
    data = written(40, codec="null", seed=11)
    manifest = decode(data, "m.avro", 0, 9)
    live = iter(range(len(manifest)))
    expected = [row[-1] for row in theirs(data)]
    for i, row in zip(live, expected, strict=True):
        for number, value in zip(manifest.partition_ids, row, strict=True):
            slot, stored, known = manifest.partition(number)
            assert (known is None or bool(known[i])) == (value is not None)
            if value is None:
                continue
            if slot.kind in ("int", "long"):
                assert stored[i].as_py() == value
            elif slot.kind == "string":
                assert stored.texts()[i].as_py() == value.encode()
            else:
                assert (
                    stored.second[i]
                    == slot.width
                    == {"double": 8, "boolean": 1, "fixed": slot.width}[slot.kind]
                )


# Files of other shapes, made by hand.


LONGS = {"type": "array", "items": "long", "element-id": 9}
HUGE = b"\xff" * 9 + b"\x01"  # -2 ** 63
REFUSED = {
    "not Avro": b"PAR1" + b"\0" * 100,
    "nothing": b"",
    "magic alone": b"Obj\x01",
    "no schema": b"Obj\x01\0" + b"S" * 16,
    "a schema that is no JSON": avro_file(b"{", []),
    "deep JSON": avro_file(b"[" * 100_000, []),
    "an endless number": avro_file(record("long"), [(1, b"\xff" * 40)]),
    "a number of 65 bits": avro_file(record("long"), [(1, b"\xff" * 9 + b"\x02")]),
    "a number cut off": avro_file(record("long"), [(1, b"\x80")]),
    "a negative length": avro_file(record("string"), [(1, varint(-1))]),
    "the least length": avro_file(record("string"), [(1, HUGE)]),
    "a length past the block": avro_file(record("string"), [(1, varint(1))]),
    "a length that wraps around": avro_file(record("string"), [(1, varint(2**62))]),
    "a branch of three": avro_file(record(["null", "long"]), [(1, varint(2) + varint(1))]),
    "a negative branch": avro_file(record(["null", "long"]), [(1, varint(-1) + varint(1))]),
    "more records than bytes": avro_file(record("long"), [(2**40, b"\0")]),
    "bytes of no records": avro_file(record("long"), [(0, b"\0")]),
    "negative records": avro_file(record("long"), [(-1, b"\0")]),
    "too few records": avro_file(record("long"), [(1, b"\0\0")]),
    "more items than bytes": avro_file(record(LONGS), [(1, varint(2**50) + b"\0")]),
    "the least count of items": avro_file(record(LONGS), [(1, HUGE + varint(1) + b"\0\0")]),
    "a negative size of items": avro_file(record(LONGS), [(1, varint(-1) + varint(-5) + b"\0\0")]),
    "an array without end": avro_file(record(LONGS), [(1, varint(1) + b"\0")]),
    "a wrong marker": avro_file(record("long"), [(1, b"\0")])[:-1] + b"T",
    "no marker": avro_file(record("long"), [(1, b"\0")])[:-1],
    "deflated rubbish": avro_file(record("long"), [(1, b"rubbish")], b"deflate"),
    "deflate cut off": avro_file(
        record("long"), [(1, zlib.compress(b"\0" * 1000, 9, -15)[:-4])], b"deflate"
    ),
}


@pytest.mark.parametrize("data", REFUSED.values(), ids=REFUSED)
def test_refused(data, loops):
    with pytest.raises(SourceError):
        Container(data).records()


def test_blocks_without_records(loops):
    """pyiceberg writes one for a manifest list without manifests."""
    blocks = [(0, b""), (1, varint(7)), (0, b"")]
    assert len(Container(avro_file(record("long"), blocks[:1])).records()) == 0
    assert len(Container(avro_file(record("long"), blocks)).records()) == 1


def test_a_bomb_is_refused(monkeypatch):
    monkeypatch.setattr(avro, "MAX_UNPACKED", 1000)
    bomb = zlib.compress(b"\0" * 10_000, 9, -15)
    with pytest.raises(SourceError, match="more than 1000"):
        Container(avro_file(record("long"), [(10_000, bomb)], b"deflate")).records()


def test_more_records_than_a_file_has(monkeypatch):
    monkeypatch.setattr(avro, "BASE_LIMIT", 1000)
    many = zlib.compress(b"\0" * 20_000, 9, -15)
    with pytest.raises(SourceError, match="20000 records"):
        Container(avro_file(record("long"), [(20_000, many)], b"deflate")).records()


RECURSIVE = {
    "type": "record",
    "name": "r",
    "fields": [{"name": "x", "field-id": 1, "type": ["null", "r"]}],
}
NESTED = "long"
for _ in range(20):
    NESTED = {"type": "array", "items": NESTED, "element-id": 1}
UNSUPPORTED = {
    "no record": "long",
    "a list": ["null", "long"],
    "a type by name": RECURSIVE,
    "a union of three": record(["null", "long", "string"]),
    "a union of one": record(["long"]),
    "a map": record({"type": "map", "values": "long"}),
    "an enum": record({"type": "enum", "name": "e", "symbols": ["a"]}),
    "nothing": record("null"),
    "no fields": record(),
    "a field without an id": {
        "type": "record",
        "name": "r",
        "fields": [{"name": "x", "type": "long"}],
    },
    "one id twice": {
        "type": "record",
        "name": "r",
        "fields": [{"name": n, "field-id": 1, "type": "long"} for n in "xy"],
    },
    "items of no bytes": record(
        {"type": "array", "element-id": 1, "items": {"type": "record", "name": "e", "fields": []}}
    ),
    "deep arrays": record(NESTED),
    "a negative size": record({"type": "fixed", "name": "f", "size": -1}),
    "no size": record({"type": "fixed", "name": "f"}),
    "many fields": record(*["long"] * 10_001),
}


@pytest.mark.parametrize("schema", UNSUPPORTED.values(), ids=UNSUPPORTED)
def test_unsupported(schema):
    with pytest.raises(Unsupported):
        program_of(schema)


def test_deep_schemas():
    schema = "long"
    for i in range(5000):
        schema = {
            "type": "record",
            "name": f"r{i}",
            "fields": [{"name": "x", "field-id": i, "type": schema}],
        }
    with pytest.raises((Unsupported, RecursionError)):
        program_of(schema)


def test_parts_of_arrays():
    """Arrays may come in parts, with or without their sizes."""
    parts = varint(2) + varint(5) + varint(-6) + varint(-1) + varint(1) + varint(7) + b"\0"
    found = Container(
        avro_file(record(LONGS, "long"), [(2, parts + varint(3) + b"\0" + varint(4))])
    ).records()
    slot = found.program.fields[0]
    assert [found.items(slot, i) for i in range(2)] == [[5, -6, 7], []]
    assert found.numbers(found.program.fields[1]).to_pylist() == [3, 4]


def test_the_last_of_equal_keys():
    pairs = {
        "type": "record",
        "name": "p",
        "fields": [
            {"name": "key", "field-id": 11, "type": "int"},
            {"name": "value", "field-id": 12, "type": "bytes"},
        ],
    }
    data = (
        varint(3) + varint(1) + text(b"a") + varint(2) + text(b"b") + varint(1) + text(b"c") + b"\0"
    )
    file = Container(
        avro_file(record({"type": "array", "logicalType": "map", "items": pairs}), [(1, data)])
    )
    found = file.records()
    assert [found.entry(found.program.fields[0], k).texts().to_pylist() for k in (1, 2, 3)] == [
        [b"c"],
        [b"b"],
        [None],
    ]


def test_odd_schemas_go_to_pyiceberg(monkeypatch):
    """A schema that our decoder does not support is read by pyiceberg."""
    data = written(6, codec="null", seed=5)
    expected = ours(decode(data, "m.avro", 0, 9))

    def refuse(schema, unused):
        asked.append(schema)
        if len(asked) == 1:
            raise Unsupported("a shape of tomorrow")
        return program_of(schema)

    asked = []
    monkeypatch.setattr(avro, "program_of", refuse)
    assert ours(decode(data, "m.avro", 0, 9)) == expected and len(asked) == 2


def test_files_that_neither_decoder_reads():
    with pytest.raises(SourceError, match="pyiceberg cannot read it either"):
        decode(avro_file(record("long"), [(1, b"\0")]), "m.avro", 0, 9)
    with pytest.raises(SourceError, match="codec"):
        decode(
            avro_file(
                json.loads(Container(written(1)).header["avro.schema"]), [(1, b"\0")], b"lzma"
            ),
            "m.avro",
            0,
            9,
        )


def test_decimals_of_all_widths():
    import decimal

    import pyarrow as pa

    from skipstone.bindings.tables.iceberg.partition import _stored
    from skipstone.bindings.tables.iceberg.values import decimals

    values = [
        0,
        1,
        -1,
        127,
        128,
        -128,
        -129,
        10**17,
        -(10**17),
        10**37 - 1,
        -(10**38) + 1,
        10**38 - 1,
    ]
    stored = [
        v.to_bytes((v if v >= 0 else ~v).bit_length() // 8 + 1, "big", signed=True) for v in values
    ]
    for to in (pa.decimal128(38, 0), pa.decimal128(18, 2), pa.decimal128(3, 1)):
        fits = [abs(v) < 10**to.precision for v in values]
        with decimal.localcontext(prec=50):
            expected = [
                decimal.Decimal(v).scaleb(-to.scale) if ok else None
                for v, ok in zip(values, fits, strict=True)
            ]
        found = decimals(_stored([*stored, None, b"", b"\1" * 17, b"\0" * 16]), to).to_pylist()
        assert found == [*expected, None, None, None, 0]


def with_field(kind):
    """Return a manifest's schema with one more field, of a kind that we do not support."""
    schema = json.loads(Container(written(1)).header["avro.schema"])
    odd = {"name": "odd", "type": ["null", "long", "string"], "field-id": 900}
    schema["fields"] = [odd, {"name": "more", "type": kind, "field-id": 901}, *schema["fields"]]
    return schema


@pytest.mark.parametrize(
    "items",
    [
        "null",
        {"type": "record", "name": "e", "fields": []},
        {"type": "fixed", "name": "f", "size": 0},
    ],
)
def test_items_without_bytes_are_not_counted_by_the_fallback(items):
    """A count of 2^60 such items would make pyiceberg loop 2^60 times."""
    kind = {"type": "array", "items": items, "element-id": 902}
    data = avro_file(with_field(kind), [(1, b"\0" + varint(1 << 60) + b"\0" * 90)])
    with pytest.raises(SourceError, match="take no bytes"):
        decode(data, "m.avro", 0, 9)


@pytest.mark.parametrize("kind", [[["long"]], {"type": ["long"]}, "fixed", "array", 5, None, {}])
def test_invalid_types(kind):
    with pytest.raises(SourceError):
        decode(avro_file(with_field(kind), [(1, b"\0" * 90)]), "m.avro", 0, 9)


def test_values_of_the_type_null_take_no_bytes():
    """Iceberg gives a partition field this type if its source column was dropped."""
    inner = {
        "type": "record",
        "name": "p",
        "fields": [
            {"name": "gone", "field-id": 11, "type": "null"},
            {"name": "k", "field-id": 12, "type": ["null", "long"]},
            {"name": "lost", "field-id": 13, "type": ["null", "null"]},
        ],
    }
    schema = record("long", inner, {"type": "null"}, ["null", "string"])
    one = varint(7) + varint(1) + varint(5) + varint(0) + varint(1) + text(b"x")
    two = varint(8) + varint(0) + varint(1) + varint(0)
    records = Container(avro_file(schema, [(2, one + two)])).records()
    program = records.program
    assert list(program.records[1]) == [11, 12, 13]
    assert sorted(program.fields) == [0, 3, 12]
    assert records.slots[program.fields[0].at].tolist() == [7, 8]
    assert records.known(program.fields[12]).tolist() == [True, False]
    assert records.known(program.fields[3]).tolist() == [True, False]
    with pytest.raises(SourceError):
        decode(avro_file(record("null"), [(3, b"")]), "m.avro", 0, 9)
