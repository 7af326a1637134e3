"""The shell's plans of Hive tables: folders that the condition rules out are not listed."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skipstone as ss
from tests.support.shell import run


@pytest.fixture
def lake(tmp_path):
    """Twelve months of two days each, a file in each."""
    for month in range(1, 13):
        for day in (1, 2):
            folder = tmp_path / f"month={month}" / f"day={day}"
            folder.mkdir(parents=True)
            rows = pa.table({"x": range(10 * month, 10 * month + 10)})
            pq.write_table(rows, folder / "part.parquet", row_group_size=5)
    return str(tmp_path)


def test_a_plan_lists_and_reads_what_python_does(lake):
    where = "month = 2 AND x >= 25"
    table = ss.scan(lake)
    plan = table.plan(where)
    found = json.loads(run("plan", lake, "-w", where, "--json").stdout)
    assert {k: v for k, v in found["work"].items() if k != "bytes"} == table.work.counts
    assert found["work"]["footers"] == 3  # the first file's gives the columns
    assert found["files"] == list(plan.files) and found["row_groups"] == plan.row_groups
    assert (found["row_groups_kept"], found["row_groups_total"]) == (2, None)
    assert found["folders_not_listed"] == plan.table.skipped_folders == 11
    assert found["sizes"]["total"]["files"] is None


def test_totals_that_are_not_known(lake):
    text = run("plan", lake, "-w", "month = 2 AND x >= 25", "--files").stdout
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert "files not listed 2 -" in lines and "row groups not listed 2 -" in lines
    assert "rows not listed 10 -" in lines
    assert "11 folders not listed" in text and "month=2/day=1/part.parquet  row groups [1]" in text


@pytest.mark.parametrize("where", [(), ("-w", "x >= 125")])
def test_totals_are_shown_if_all_folders_are_listed(lake, where):
    text = run("plan", lake, *where).stdout
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert any(line.startswith("files 24 ") for line in lines)
    assert any(line.startswith("row groups 48 ") for line in lines)
    assert "not listed" not in text
    found = json.loads(run("plan", lake, *where, "--json").stdout)
    assert (found["row_groups_total"], found["folders_not_listed"]) == (48, 0)


def test_explain(lake):
    text = run("explain", lake, "-w", "month = 2 AND x >= 25").stdout
    assert "11 folders not listed" in text
    found = json.loads(run("explain", lake, "-w", "month = 2 AND x >= 25", "--json").stdout)
    assert found["sizes"]["scan"]["files"] == 2 and found["sizes"]["total"]["files"] is None
    named = run("explain", lake, "-w", "month = 2", "--container", "day=1/part.parquet:1").stdout
    assert "month=2/day=1/part.parquet, row group 1" in named


def test_unreadable_files_are_kept(lake):
    with open(f"{lake}/month=2/day=1/torn.parquet", "wb") as f:
        f.write(b"PAR1")
    assert run("plan", lake, "-w", "month = 2").returncode == 2
    assert run("plan", lake, "-w", "month = 3").returncode == 0
    text = run("plan", lake, "-w", "month = 2 AND x < 0", "--keep-unreadable", "--files").stdout
    assert "torn.parquet" in text


def test_other_commands_show_all_files(lake):
    assert "24 files, 48 row groups:" in run("stats", lake).stdout
    assert json.loads(run("advise", lake, "--json").stdout)["files"] == 24


def test_a_hive_table_has_no_versions(lake):
    failed = run("plan", lake, "--at", "1")
    assert failed.returncode == 2 and "is read as hive" in failed.stderr
    assert "--at applies to Delta" in failed.stderr and "version=" not in failed.stderr


def test_folders_that_look_like_arguments_stay_as_they_are(tmp_path):
    failed = run("plan", str(tmp_path / "version=" / "columns= x"))
    assert failed.returncode == 2 and "/version=/columns= x does not exist" in failed.stderr


def test_advice_names_the_format(lake):
    assert f"{lake}: hive, " in run("advise", lake).stdout
