"""Files replaced after planning: the answer is about the planned files, or it is an error."""

import os

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

import skipstone as ss

QUERIES = {
    "count": lambda plan: plan.count(),
    "min": lambda plan: plan.min("x"),
    "max": lambda plan: plan.max("x"),
    "to_arrow": lambda plan: plan.to_arrow().num_rows,
    "to_batches": lambda plan: sum(b.num_rows for b in plan.to_batches()),
}
ANSWERS = {"count": 4, "min": 10, "max": 21, "to_arrow": 4, "to_batches": 4}


def write(path, values):
    pq.write_table(pa.table({"x": values}), path, use_dictionary=False, compression="none")


def replace_values(path):
    """Write other values in the same number of bytes."""
    size, time = os.path.getsize(path), os.stat(path).st_mtime_ns
    write(path, [98, 99])
    assert os.path.getsize(path) == size
    os.utime(path, ns=(time + 10**6, time + 10**6))


CHANGES = {
    "replaced": replace_values,
    "longer": lambda path: write(path, list(range(100))),
    "removed": os.remove,
}


@pytest.fixture(params=["parquet", "hive"])
def place(tmp_path, request):
    """Return the paths of three files, and a function that scans the table."""
    paths = []
    for i in range(3):
        folder = tmp_path / f"p={i}" if request.param == "hive" else tmp_path
        folder.mkdir(exist_ok=True)
        paths.append(str(folder / f"{i}.parquet"))
        write(paths[-1], [10 * i, 10 * i + 1])
    return paths, lambda: getattr(ss, f"scan_{request.param}")(str(tmp_path))


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("where", ["x >= 10", "x > 9 AND x <> 15"], ids=["whole", "in part"])
def test_a_changed_file_is_an_error(place, change, where):
    paths, scan = place
    plan = scan().plan(where)
    assert {name: query(plan) for name, query in QUERIES.items()} == ANSWERS
    CHANGES[change](paths[1])
    for name, query in QUERIES.items():
        with pytest.raises(ss.StaleFile, match=r"1\.parquet: the file .* scan the table again"):
            query(plan)
        assert issubclass(ss.StaleFile, ss.SourceError), name


def test_a_pruned_file_is_not_checked(place):
    paths, scan = place
    plan = scan().plan("x >= 10")
    os.remove(paths[0])
    assert {name: query(plan) for name, query in QUERIES.items()} == ANSWERS
    assert scan().plan("x >= 10").count() == 4


def test_a_scan_after_the_change_is_right(place):
    paths, scan = place
    replace_values(paths[1])
    plan = scan().plan("x >= 10")
    assert plan.count() == plan.to_arrow().num_rows == 4 and plan.max("x") == 99


def test_other_file_systems_are_not_checked_again(tmp_path):
    """Files of other file systems are not checked if their statistics answer the query."""
    write(tmp_path / "a.parquet", [1, 2])
    fs = pafs.SubTreeFileSystem(str(tmp_path), pafs.LocalFileSystem())
    plan = ss.scan_parquet("a.parquet", filesystem=fs).plan("x > 0")
    write(tmp_path / "a.parquet", list(range(100)))
    assert plan.count() == 2
    with pytest.raises(ss.StaleFile, match="scan the table again"):
        plan.to_arrow()
