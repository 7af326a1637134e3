"""Test that unpacking stops if its result is too large: a manifest of 98 KB unpacked to 3 GiB."""

import bz2
import gzip
import tracemalloc
import zlib

import pyarrow as pa
import pytest

import skipstone as ss
from skipstone.bindings.tables.iceberg import fallback
from skipstone.bindings.tables.iceberg.located import metadata_file
from skipstone.kernels.decode import avro
from skipstone.kernels.decode.unpack import CODECS, unpacked
from tests.support.tables.avro import avro_file, record
from tests.support.tables.iceberg_deletes import SCHEMA
from tests.support.tables.iceberg_tables import make


def snappy(data):
    packed = pa.compress(data, "snappy", asbytes=True)
    return packed + zlib.crc32(data).to_bytes(4, "big")


PACK = {
    "deflate": lambda data: zlib.compress(data, wbits=-15),
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    "zstandard": lambda data: pa.compress(data, "zstd", asbytes=True),
    "snappy": snappy,
}
BOMBS = {codec: pack(bytes(1 << 24)) for codec, pack in PACK.items()}


def test_all_codecs_are_tried():
    assert set(PACK) == set(CODECS)


@pytest.mark.parametrize("codec", CODECS)
def test_unpacking_restores_the_content(codec):
    for data in (b"", b"a", bytes(range(256)) * 99, bytes(5000)):
        block = PACK[codec](data)
        assert unpacked(codec, block, len(data)) == data
        assert unpacked(codec, block, 1 << 20) == data
        if data:
            with pytest.raises(ss.SourceError):
                unpacked(codec, block, len(data) - 1)
        for cut in {0, 1, len(block) // 2, len(block) - 1} if data else ():
            with pytest.raises(ss.SourceError):
                unpacked(codec, block[:cut], 1 << 20)


@pytest.mark.parametrize("codec", CODECS)
def test_a_bomb_takes_no_memory(codec):
    before = pa.total_allocated_bytes()
    tracemalloc.start()
    with pytest.raises(ss.SourceError, match=r"takes .*bytes unpacked"):
        unpacked(codec, BOMBS[codec], 1 << 20)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 23 and pa.total_allocated_bytes() - before < 1 << 20


@pytest.mark.parametrize("codec", ["deflate", "bzip2", "zstandard"])
@pytest.mark.parametrize("blocks", [1, 3])
def test_manifests_that_unpack_to_too_much(monkeypatch, codec, blocks):
    monkeypatch.setattr(avro, "BASE_LIMIT", 1 << 20)
    data = avro_file(record("long"), [(1 << 24, BOMBS[codec])] * blocks, codec.encode())
    assert len(data) < 500_000
    with pytest.raises(ss.SourceError, match=r"takes more than \d+ bytes unpacked"):
        avro.Container(data).records()
    with pytest.raises(ss.SourceError):
        fallback.manifest_list(data, Exception())


def test_metadata_that_unpacks_to_too_much(monkeypatch, tmp_path):
    monkeypatch.setattr(avro, "BASE_LIMIT", 1 << 20)
    path = tmp_path / "v1.gz.metadata.json"
    path.write_bytes(gzip.compress(bytes(1 << 24)))
    with pytest.raises(ss.SourceError, match=r"takes more than \d+ bytes unpacked"):
        ss.scan_iceberg(str(path))


def test_packed_metadata_is_read(tmp_path):
    source = make(tmp_path, SCHEMA)
    plain = source.metadata_location.removeprefix("file://")
    packed = plain.replace(".metadata.json", ".gz.metadata.json")
    with open(plain, "rb") as f, open(packed, "wb") as out:
        out.write(gzip.compress(f.read()))
    assert ss.scan_iceberg(packed).schema.names == ["x", "p", "f"]


@pytest.mark.parametrize("hint", ["../../x", "/etc/x.metadata.json", "a\nb", "", "..\\x"])
def test_hints_that_lead_elsewhere(tmp_path, hint):
    (tmp_path / "metadata").mkdir()
    (tmp_path / "metadata" / "version-hint.text").write_text(hint)
    with pytest.raises(ss.SourceError, match="expected a version"):
        ss.scan_iceberg(str(tmp_path))


def test_hints_that_name_a_version(tmp_path):
    (tmp_path / "metadata").mkdir()
    for hint, name in (("3", "v3"), ("00001-a", "00001-a"), ("b.metadata.json", "b")):
        (tmp_path / "metadata" / "version-hint.text").write_text(hint)
        assert metadata_file(str(tmp_path), {}) == f"{tmp_path}/metadata/{name}.metadata.json"
