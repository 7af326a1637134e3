"""The command prints in every encoding and place, shows warnings on one line, and knows -h."""

import json
import os
import re
import shlex
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


# Places of the output.


@pytest.mark.parametrize("command", [("explain", "-w", "x = 5"), ("advise",)])
def test_a_page_is_written_to_a_file(file, tmp_path, command):
    page = tmp_path / "page.html"
    done = run(command[0], file, *command[1:], "-o", str(page))
    assert (done.returncode, done.stdout) == (0, f"written: {page}\n")
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    done = run(command[0], file, *command[1:], "--output", str(page), "--json")
    assert done.returncode == 0 and json.loads(done.stdout)
    done = run(command[0], file, *command[1:], "-o", str(tmp_path / "none" / "page.html"))
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(r"skipstone: .*the page cannot be written \(File.*\n", done.stderr)


@pytest.mark.parametrize("command", [("explain", "-w", "x = 5"), ("advise",)])
@pytest.mark.parametrize("name", ["page.png", "page.PDF", "page.json"])
def test_a_page_is_not_written_under_the_name_of_another_format(file, tmp_path, command, name):
    done = run(command[0], file, *command[1:], "-o", str(tmp_path / name))
    assert done.returncode == 2 and "expected a name that ends in .html" in done.stderr
    assert not (tmp_path / name).exists()


def test_a_page_is_printed_or_written(file, tmp_path):
    done = run("explain", file, "-w", "x = 5", "--html", "-o", str(tmp_path / "page.html"))
    assert done.returncode == 2 and "expected one of --html and --output" in done.stderr


COMMANDS = [
    ("plan", "{file}", "-w", "x = 5"),
    ("check", "{file}"),
    ("cache", "info"),
    ("--help",),
    ("--version",),
]
#    where standard output and error go, exit code, what standard error says
PLACES = [
    ("| true", 141, ""),  # the reader has gone
    ("> /dev/full", 2, "skipstone: the output cannot be written (OSError: [Errno 28] "),
    (">&-", 0, ""),
    ("2>&-", 0, ""),
]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="only Linux has /dev/full")
@pytest.mark.parametrize("place, code, said", PLACES, ids=[p for p, _, _ in PLACES])
def test_places_that_take_no_output(file, place, code, said):
    """The exit code of `check` must not say that a statistic is wrong."""
    for command in COMMANDS:
        words = [sys.executable, "-m", "skipstone", *(w.format(file=file) for w in command)]
        # Python's own buffer is in the way where nothing asks it to be off.
        script = (
            f"unset PYTHONUNBUFFERED; set -o pipefail; (sleep 0.1; {shlex.join(words)}) {place}"
        )
        done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=120)
        assert done.returncode == code, (command, done.stderr)
        assert done.stderr.startswith(said) and done.stderr.count("\n") == bool(said), command


def test_an_interrupted_command(file):
    code = (
        "import os, signal, sys\n"
        "from skipstone.bindings.shell import main, show\n"
        "show.show_plan = lambda *args: os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.argv = ['skipstone', 'plan', sys.argv[1]]\n"
        "main.run()"
    )
    done = subprocess.run([sys.executable, "-c", code, file], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr == "\nskipstone: interrupted\n"
