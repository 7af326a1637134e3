"""The command line: three times as a user runs it, otherwise in this process."""

import json
import os
import re
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skipstone as ss
from tests.support.shell import run
from tests.support.tables.iceberg_tables import make


@pytest.fixture
def data(tmp_path):
    (tmp_path / "k=1").mkdir()
    pq.write_table(
        pa.table({"x": range(100), "s": ["a", "b"] * 50}),
        tmp_path / "k=1" / "p.parquet",
        row_group_size=10,
    )
    return str(tmp_path)


def start(*args):
    """Run the command in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "skipstone.bindings.shell.main", *args],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


END = """
import atexit, sys, threading, time
atexit.register(print, "exit functions ran")
{before}
sys.argv = ["skipstone", *sys.argv[1:]]
from skipstone.bindings.shell import main
{main}
main.run()
"""
LATER = "threading.Thread(target=lambda: (time.sleep(0.3), print('the thread ended'))).start()"


@pytest.mark.parametrize(
    ("arguments", "before", "main", "code", "output"),
    [
        (["--version"], "", "", 0, f"skipstone {ss.__version__}\nexit functions ran\n"),
        (["plan", "/nowhere"], "", "", 2, "exit functions ran\n"),
        ([], LATER, "main.main = lambda: None", 0, "the thread ended\nexit functions ran\n"),
        ([], "", "main.main = lambda: sys.exit('a message')", 1, "exit functions ran\n"),
        ([], "", "main.main = lambda: 1 / 0", 1, "exit functions ran\n"),
    ],
    ids=["done", "an error", "a thread is left", "a message", "an exception"],
)
def test_the_process_ends_as_any_other(arguments, before, main, code, output):
    text = END.format(before=before, main=main)
    done = subprocess.run(
        [sys.executable, "-c", text, *arguments], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout) == (code, output), done.stderr
    expected = {"a message": "a message", "1 / 0": "ZeroDivisionError", "": ""}
    assert next(v for k, v in expected.items() if k in main) in done.stderr


def test_plan(data):
    result = start("plan", data, "--where", "x >= 95 AND k = 1", "--files")
    assert result.returncode == 0, result.stderr
    assert "row groups" in result.stdout
    assert "row groups [9]" in result.stdout


def test_plan_without_a_condition_keeps_everything(data):
    result = run("plan", data)
    assert result.returncode == 0 and "true" not in result.stdout.lower()
    output = json.loads(run("plan", data, "--json").stdout)
    assert output["predicate"] is None
    assert output["row_groups_kept"] == output["row_groups_total"] == 10


def test_plan_json(data):
    result = run("plan", data, "-w", "x >= 95", "--json")
    output = json.loads(result.stdout)
    assert (output["row_groups_kept"], output["row_groups_total"], output["skipping"]) == (
        1,
        10,
        "data",
    )
    assert output["sizes"]["scan"]["rows"] == 10
    assert list(output["row_groups"].values()) == [[9]]


def test_explain(data):
    where = "x > 50 AND s = 'zz' AND soundex(x) = 0"
    text = run("explain", data, "--where", where).stdout
    assert "─ statistics 10 → 0 " in " ".join(text.split())
    assert "soundex(x) = 0 cannot prune: Skipstone does not know Spark's function soundex" in text
    assert "x_null_count = x_row_count" not in text
    text = run("explain", data, "--where", where, "--program").stdout
    for part in ("x_null_count = x_row_count", "guarantee   s IN ('zz')", "kept for"):
        assert part in text


def test_explain_a_container_and_in_html(data):
    command = ("explain", data, "--where", "x > 50", "--container", "p.parquet:7")
    text = run(*command).stdout
    assert "p.parquet, row group 7" in text and "└─ x > 50  ALWAYS" in text
    page = run(*command, "--html").stdout
    assert page.startswith("<!doctype html>") and "row group 7" in page
    both = run(*command, "--html", "--json")
    assert both.returncode == 2 and "expected one of --json and --html" in both.stderr
    missing = run("explain", data, "--where", "x > 50", "--container", "q.parquet")
    assert missing.returncode == 2 and "the plan has no such file" in missing.stderr


def test_stats(data):
    output = json.loads(run("stats", data, "--json").stdout)
    by_name = {c["column"]: c for c in output["columns"]}
    assert by_name["x"] == {
        "column": "x",
        "type": "BIGINT",
        "min": 10,
        "max": 10,
        "null_count": 10,
        "partition": False,
    }
    assert by_name["k"]["partition"]
    assert output["page_indexes"] == {"files": 0, "row_groups": 0, "unknown": 0}
    assert "k (partition)" in run("stats", data).stdout


def test_page_indexes(data, tmp_path):
    """One of two files has them; once footers are saved, it is not known."""
    rows = pa.table({"x": range(100, 200), "s": ["c"] * 100})
    (tmp_path / "k=2").mkdir()
    path = tmp_path / "k=2" / "p.parquet"
    pq.write_table(
        rows, path, row_group_size=50, max_rows_per_page=10, write_batch_size=10,
        write_page_index=True,
    )  # fmt: skip
    output = json.loads(run("stats", data, "--json").stdout)
    assert output["page_indexes"] == {"files": 1, "row_groups": 2, "unknown": 0}
    assert "page indexes in 1 of 2 files, 2 of 12 row groups" in run("stats", data).stdout
    explained = run("explain", data, "--where", "x = 117", "--pages").stdout
    assert re.search(r"└─ pages +1 → 1 +1 .* 10 +1 of 5 judged pages", explained)
    assert "judged pages" not in run("explain", data, "--where", "x = 117").stdout
    for file in (path, tmp_path / "k=1" / "p.parquet"):
        os.utime(file, (1, 1))
    ss.scan_parquet(data).save_stats()
    assert "0 of 12 row groups; unknown in 2 files" in run("stats", data).stdout


@pytest.mark.parametrize(
    "where, message",
    [
        ("nope = 1", "UnknownColumn: predicate names 'nope'"),
        ("x = = 1", "PredicateSyntaxError"),
        ("x = 1; DROP TABLE t", "2 statements"),
    ],
)
def test_errors_are_one_message(data, where, message):
    result = run("plan", data, "--where", where)
    assert result.returncode == 2
    assert message in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("where", "hint"),
    [("s = BOS", True), ("s = `b`", False), ("xx = 1", False), ("x = = 1", False)],
)
def test_text_without_quotes(data, where, hint):
    """A shell takes quotes away: `-w 's = 'BOS''` arrives as s = BOS."""
    said = run("plan", data, "--where", where).stderr
    assert ("put text in single quotes" in said) == hint


@pytest.mark.parametrize("name", ["m.html", "m.png"])
def test_a_map_that_cannot_be_written(data, tmp_path, name):
    if name.endswith("png"):
        pytest.importorskip("matplotlib")
    result = run("map", data, "-o", str(tmp_path / "none" / name))
    assert result.returncode == 2
    message = r".*none/m\.\w+: the map cannot be written \(File.*\); name another file\n"
    assert re.fullmatch(message, result.stderr)


@pytest.mark.parametrize("scale", ["0", "-1"])
def test_scales_of_the_demonstration(scale, tmp_path):
    result = run("demo", "--scale", scale, "--folder", str(tmp_path))
    assert (result.returncode, "is not in the range x>0" in result.stderr) == (2, True)
    assert list(tmp_path.iterdir()) == []


def test_missing_path():
    result = start("plan", "/no/such/place", "--where", "x = 1")
    assert (result.returncode, "does not exist" in result.stderr) == (2, True)


#   arguments                              what the error says
MISTAKES = [
    (["plan", "{data}", "x=1"],             "'x=1' is not a path; give a condition with --where"),
    (["plan", "{data}", "-w", "WHERE x=1"], "does not begin with WHERE; write x=1"),
    (["plan", "{data}", "-w", "s = 'it's'"], "is never closed"),
    (["plan", "{data}", "-w", "q = abc"],   "put text in single quotes: --where"),
    (["plan", "{data}", "--at", "1"],       "SourceError: --at applies to Delta and Iceberg"),
    (["plan", "{data}", "--order-by", "q"], "UnknownColumn: --order-by names 'q'"),
    (["plan", "{data}", "-w", "x=1 ORDER BY x"], "give the order by --order-by (line 1"),
    (["plan", "{data}", "-w", "x=1 LIMIT 2"], "give the number of rows by --limit (line 1"),
    (["check", "{data}", "-c", "q"],        "UnknownColumn: --column names 'q'"),
    (["demo", "--folder", "{file}/f"],      "cannot be made (NotADirectoryError"),
]  # fmt: skip


@pytest.mark.parametrize("arguments, message", MISTAKES, ids=[m for _, m in MISTAKES])
def test_mistakes(data, arguments, message, tmp_path):
    file = tmp_path / "_file"
    file.touch()
    result = run(*(a.format(data=data, file=file) for a in arguments))
    assert result.returncode == 2 and message in result.stderr and "Traceback" not in result.stderr


def test_an_iceberg_table_is_planned_from_its_metadata(tmp_path):
    table = make(tmp_path, pa.schema([("x", pa.int64())]))
    for i in range(3):
        table.append(pa.table({"x": range(i * 10, i * 10 + 10)}))
    metadata = table.metadata_location.removeprefix("file://")
    result = run("plan", metadata, "-w", "x >= 5", "--order-by", "x desc", "--limit", "3", "--json")
    output = json.loads(result.stdout)
    assert result.returncode == 0, result.stderr
    assert (
        len(output["files"]),
        output["sizes"]["total"]["rows"],
        output["work"]["manifests"],
    ) == (
        1,
        30,
        3,
    )
    assert json.loads(run("stats", metadata, "--json").stdout)["files"] == 3
    assert "3 manifests" in start("plan", metadata, "-w", "x >= 5").stdout
    refused = run("plan", metadata.rsplit("/metadata/", 1)[0], "-w", "x >= 5")
    assert (refused.returncode, "name the file" in refused.stderr) == (2, True)


def test_a_delta_table_is_planned_from_its_log(tmp_path):
    """It is not planned as the Parquet files in its folder, some of which have been removed."""
    deltalake = pytest.importorskip("deltalake")
    folder = str(tmp_path / "t")
    for i in range(3):
        deltalake.write_deltalake(
            folder, pa.table({"x": range(i * 10, i * 10 + 10)}), mode="append"
        )
    deltalake.DeltaTable(folder).delete("x >= 20")
    result = run("plan", folder, "-w", "x >= 5", "--json")
    output = json.loads(result.stdout)
    assert result.returncode == 0, result.stderr
    assert (len(output["files"]), output["sizes"]["total"]["rows"], "row_groups" in output) == (
        2,
        20,
        False,
    )
    assert "20" in run("plan", folder, "-w", "x >= 5", "--files").stdout
    assert "statistics           2 → 1" in run("explain", folder, "-w", "x >= 15").stdout
    assert json.loads(run("stats", folder, "--json").stdout)["files"] == 2


def test_several_files_are_one_table(data, tmp_path):
    """A shell expands dir/*.parquet."""
    pq.write_table(pa.table({"x": range(100, 200), "s": ["a"] * 100}), tmp_path / "q.parquet")
    paths = [str(tmp_path / "k=1" / "p.parquet"), str(tmp_path / "q.parquet")]
    result = run("plan", *paths, "--where", "x >= 95", "--json")
    assert [os.path.basename(f) for f in json.loads(result.stdout)["files"]] == [
        "p.parquet",
        "q.parquet",
    ]


def test_explain_json(data):
    where = "x >= 95 AND s = 'b' AND nope(x) > 1"
    found = json.loads(run("explain", data, "--where", where, "--json", "--pages").stdout)
    assert [c["alone"] for c in found["conjuncts"]] == [9, 0, 0]
    assert found["not_understood"][0]["what"] == "nope(x) > 1"
    assert found["guarantees"] == [{"column": "s", "kind": "in", "values": ["b"]}]
    assert found["sizes"]["scan"]["rows"] == 10
    assert found["kept_because"] == {"the form is not understood": 1}
    assert list(found["pages"].values()) == [{"9": [[0, 10]]}]


def test_version_and_module():
    for args in (["--version"], ["--help"]):
        result = subprocess.run(
            [sys.executable, "-m", "skipstone", *args], capture_output=True, text=True, check=False
        )
        assert result.returncode == 0, result.stderr
        assert "skipstone" in result.stdout


HEAVY = ("numba", "polars", "deltalake", "pyiceberg", "pyspark", "pydantic", "rich")
NOT_FOR_HELP = ("pyarrow", "numpy", "sqlglot", "pandas", *HEAVY)


@pytest.mark.parametrize(
    ("code", "unwanted"),
    [
        (
            "from skipstone.bindings.shell.cli import app; app(['--help'], standalone_mode=False)",
            NOT_FOR_HELP,
        ),
        (
            "from skipstone.bindings.shell.cli import app\n"
            "app(['plan', path, '--where', 'x > 95'], standalone_mode=False)",
            (*HEAVY, "pandas"),
        ),
        ("import skipstone", (*NOT_FOR_HELP, "click")),
        (
            "import skipstone; skipstone.scan_parquet(path).plan('x > 95').to_arrow()",
            (*HEAVY, "click"),
        ),
    ],
    ids=["help", "plan", "import", "rows"],
)
def test_heavy_packages_are_imported_when_they_are_needed(code, unwanted, data):
    code = (
        f"path = {data!r}\n{code}\nimport sys\nprint([m for m in {unwanted} if m in sys.modules])"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.splitlines()[-1] == "[]"


# What a plain condition does not need; and the most modules of our own, which cost 0.5 ms each.
NOT_FOR_PLANS = (
    "bindings.plans.aggregate", "bindings.plans.explain", "bindings.plans.order",
    "ir.coercion.nearest", "ir.functions.nested.arrays", "ir.functions.text",
    "ir.functions.words", "ir.partitioning", "kernels.gpu", "kernels.index.index",
)  # fmt: skip
MAX_MODULES = 195


def test_a_plain_condition_imports_few_modules(data):
    code = (
        "import skipstone, sys\n"
        f"skipstone.scan_parquet({data!r}).plan(\"x > 95 AND s = 'a'\").to_arrow()\n"
        "print(*(m.removeprefix('skipstone.') for m in sys.modules if m.startswith('skipstone.')))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    modules = result.stdout.split()
    assert not set(modules) & set(NOT_FOR_PLANS)
    assert len(modules) <= MAX_MODULES, len(modules)


def test_advise(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("workload")
    workload = folder / "workload.sql"
    workload.write_text("s = 'a'\n-- no\nnosuch = 1\n", encoding="utf-8")
    page = folder / "advice.html"
    for more in ((), ("--sample",), ("--no-sample",), ("--sample-rows", "50")):
        result = run("advise", data, "--queries", str(workload), *more)
        assert result.returncode == 0, result.stderr
        assert "ort by s within k" in result.stdout
        assert "nosuch = 1: predicate names 'nosuch'" in result.stdout
    result = run("advise", data, "--queries", str(workload), "--json", "--html", str(page))
    found = json.loads(result.stdout)
    assert "s" in found["best"]["keys"] + found["best"]["partition_by"]
    assert found["statements"][0]["engine"] == "DuckDB"
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert "No workload" in run("advise", data).stdout
    both = run("advise", data, "--no-sample", "--sample-rows", "50")
    assert both.returncode == 2 and "exclude each other" in both.stderr


def test_advise_names_a_workload_that_cannot_be_read(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("workload")
    (folder / "empty.sql").write_text("-- nothing\n", encoding="utf-8")
    (folder / "other.sql").write_text("nosuch = 1;\nx = = 1\n", encoding="utf-8")
    for name, why in (
        ("no.sql", "cannot be read"),
        ("empty.sql", "is empty"),
        ("other.sql", "none of the 2 parts of the workload could be used; the first is 'nosuch"),
    ):
        result = run("advise", data, "--queries", str(folder / name))
        assert (result.returncode, why in result.stderr) == (2, True)
