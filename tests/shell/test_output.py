"""The command prints in every encoding, shows a warning on one line, and knows -h."""

import os
import re
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.shell import run


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "p.parquet"
    pq.write_table(pa.table({"x": range(100), "s": ["a", "b"] * 50}), path, row_group_size=10)
    return str(path)


def start(*args, **variables):
    """Run the command in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "skipstone", *args],
        capture_output=True,
        check=False,
        timeout=120,
        env=os.environ | variables,
    )


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "ascii:surrogateescape"])
def test_an_encoding_without_boxes_gets_plain_characters(file, encoding):
    done = start("explain", file, "-w", "x = 5 AND s = 'é'", PYTHONIOENCODING=encoding)
    assert done.returncode == 0, done.stderr
    said = done.stdout.decode(encoding.partition(":")[0]).splitlines()
    assert any(line.startswith("|- x = 5 ") for line in said)
    assert any(line.startswith("`- s = '") for line in said)
    assert any("10 -> 0" in line for line in said)


def test_utf8_keeps_boxes(file):
    done = start("explain", file, "-w", "x = 5", PYTHONIOENCODING="utf-8")
    assert "└─ x = 5" in done.stdout.decode()


def test_a_warning_of_a_map_is_one_line_without_a_file_of_python(file, tmp_path):
    done = start("map", file, "-w", "soundx(s) = 'x' AND x > 5", "-o", str(tmp_path / "m.html"))
    assert done.returncode == 0
    first, *_ = done.stderr.decode().splitlines()
    assert first.startswith("skipstone: soundx(s) = 'x' cannot prune: the function soundx is not ")
    assert b".py:" not in done.stderr and b"SkipstoneWarning" not in done.stderr


@pytest.mark.parametrize("command", [(), ("plan",), ("cache",), ("cache", "info")])
def test_a_short_option_shows_help(command):
    shown = run(*command, "-h")
    assert shown.returncode == 0 and shown.stdout == run(*command, "--help").stdout


def test_a_condition_without_text_needs_no_quotes(file):
    assert "put text in single quotes" not in run("plan", file, "-w", "nosuch = 1").stderr
    assert "put text in single quotes" in run("plan", file, "-w", "nosuch = b").stderr
    assert "put text in single quotes" in run("plan", file, "-w", "nosuch IN (b)").stderr


def test_times_of_a_plan_have_the_same_decimals(file):
    said = start("plan", file, "-w", "x > 5").stdout.decode()
    assert re.search(r"^scanned in [\d,]+\.\d ms, planned in [\d,]+\.\d ms, ", said, re.MULTILINE)


def test_a_sample_has_rows(file):
    done = run("advise", file, "--sample-rows", "0")
    assert done.returncode == 2 and "x>=1" in done.stderr


def test_a_workload_of_one_part_that_cannot_be_used(file, tmp_path):
    workload = tmp_path / "w.sql"
    workload.write_text("nosuch = 1\n", encoding="utf-8")
    said = run("advise", file, "--queries", str(workload)).stderr
    assert "w.sql: the workload's only part, 'nosuch = 1', cannot be used: predicate names" in said
