"""Fixtures for tests of dynamic filters."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skipstone as ss


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Six files; file i has two row groups with k = 10 i + (0..4) and (5..9), and day = i."""
    path = tmp_path_factory.mktemp("fact")
    for i in range(6):
        table = pa.table({"k": range(10 * i, 10 * i + 10), "day": [i] * 10, "v": [float(i)] * 10})
        pq.write_table(table, path / f"{i}.parquet", row_group_size=5)
    return str(path)


@pytest.fixture(scope="module")
def table(folder):
    return ss.scan_parquet(folder)
