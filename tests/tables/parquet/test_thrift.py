"""The compact protocol: malformed bytes raise ThriftError and nothing else; numbers written."""

import random
import struct

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skipstone.bindings.tables.parquet.thrift import (
    MAX_EXACT,
    MIN_EXACT,
    STATISTICS,
    ThriftError,
    column_chunks,
    read_struct,
)
from skipstone.bindings.tables.parquet.thrift_writer import zigzag, zigzags


@pytest.fixture(scope="module")
def footer(tmp_path_factory):
    path = tmp_path_factory.mktemp("thrift") / "t.parquet"
    pq.write_table(
        pa.table({"s": ["a", "b"], "x": [1.0, 2.0], "l": [[1], [2]]}), path, row_group_size=1
    )
    data = path.read_bytes()
    return data[-8 - struct.unpack("<I", data[-8:-4])[0] : -8]


def test_reads_a_footer(footer):
    assert [
        [[c[STATISTICS][f] for f in (MIN_EXACT, MAX_EXACT)] for c in group]
        for group in column_chunks(read_struct(footer))
    ] == [[[True, True]] * 3] * 2
    assert read_struct(footer)[3] == 2  # num_rows


def test_mutated_footers(footer):
    rng = random.Random(1)
    refused = 0
    for _ in range(3000):
        data = bytearray(footer[: rng.randrange(len(footer) + 1)] if rng.random() < 0.3 else footer)
        for _ in range(rng.randint(1, 6)):
            if data:
                data[rng.randrange(len(data))] = rng.randrange(256)
        try:
            column_chunks(read_struct(bytes(data)))
        except ThriftError:
            refused += 1
    assert refused > 500


@pytest.mark.parametrize(
    "data", [b"", b"\x19\xfc\xff\xff\xff\xff\x0f", b"\x1c" * 5000, b"\x16" + b"\xff" * 20]
)
def test_bombs(data):
    with pytest.raises(ThriftError):
        read_struct(data)


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=80))
def test_many_numbers_are_written_as_each_alone(values):
    assert zigzags(np.array(values, np.int64)) == [zigzag(v) for v in values]
