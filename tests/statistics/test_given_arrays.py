"""Changing a given array later changes no answer; read-only arrays are not copied."""

import numpy as np
import pyarrow as pa
import pytest

import skipstone as ss

SCHEMA = pa.schema([("x", pa.int64())])
P = ss.PruningPredicate("x = 5 OR x IS NULL", SCHEMA)


@pytest.mark.parametrize("key", ["min", "max", "null_count", "row_count"])
@pytest.mark.parametrize("packed_before", [False, True])
def test_arrays_that_are_changed_later(key, packed_before):
    given = {"min": [0, 9], "max": [7, 9], "null_count": [0, 0], "row_count": [3, 3]}
    arrays = {name: np.array(values) for name, values in given.items()}
    stats = ss.Statistics.from_dict({"x": arrays}, SCHEMA, row_count=(rows := np.array([3, 3])))
    if packed_before:
        P.prune(stats)
    arrays[key][:] = [9, 0]
    rows[:] = 0
    assert P.prune(stats).tolist() == [True, False]
    assert stats.get("x", key).to_pylist() == given[key] and stats.row_count.to_pylist() == [3, 3]


def test_read_only_arrays_are_not_copied():
    low = np.arange(1000)
    view = low.view()
    view.setflags(write=False)
    stats = ss.Statistics.from_dict({"x": {"min": view, "max": low}}, SCHEMA)
    assert stats.get("x", "min").buffers()[1].address == low.ctypes.data
    assert stats.get("x", "max").buffers()[1].address != low.ctypes.data
    arrow = pa.array(low)
    stats = ss.Statistics.from_dict({"x": {"min": arrow}}, SCHEMA)
    assert stats.get("x", "min").buffers()[1].address == arrow.buffers()[1].address
