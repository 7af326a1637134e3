"""Real but tiny runs of the benchmarks. Only what they save is tested, never how long it took."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from bench import __main__ as command
from bench.files import compete, files, parquet
from bench.files.lake import Lake, make_parquet
from bench.files.task import Contestant, Task, by_position
from bench.registry import USUAL, WORKLOADS
from bench.report import markdown
from bench.report.bandwidth import BANDWIDTH
from bench.report.compare import compare
from bench.report.report import OWN, Options, Report, WrongAnswer
from bench.report.results import FOLDER, as_json, load, machine, save
from bench.rows import computed, kinds, remote, rows
from bench.rows.compete import Rows
from bench.rows.data import Data, layouts
from bench.statistics import gpu
from bench.statistics.ingest import ingest
from bench.statistics.scaling import scaling
from bench.tables import handover
from skipstone.ir.errors import BackendMissing
from tests.support.bench_results import made_up
from tests.support.effort import only_long

SIZE = 1000


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("bench")
    command.main(["ranges", "--containers", str(SIZE), "--rounds", "2", "--json", str(folder)])
    return load(folder)


def test_a_run_keeps_every_contestant(measured: dict[str, Any]) -> None:
    found = measured["ranges"]
    assert found["containers"] == SIZE
    timings = {t["name"]: t for t in found["timings"]}
    assert {BANDWIDTH, "Numba, prune", "NumPy by hand"} <= timings.keys()
    assert all(
        t["rounds"] == 2 and t["reference"] == BANDWIDTH and t["share"] > 0
        for name, t in timings.items()
        if name != BANDWIDTH
    )
    assert compare(measured, measured).slower == []


def test_saving_keeps_other_workloads(
    measured: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    readme, figures = tmp_path / "README.md", tmp_path / "figures.md"
    for path in (readme, figures):
        path.write_text(f"{markdown.BEGIN}\n{markdown.END}\n")
    monkeypatch.setattr(command, "FOLDER", tmp_path)
    monkeypatch.setattr(command, "README", readme)
    monkeypatch.setattr(command, "FIGURES", figures)
    monkeypatch.setattr(command, "COMPARISON", tmp_path / "comparison.md")
    monkeypatch.setattr(command, "draw", lambda results, folder: [])
    save(tmp_path, {**made_up(), "latency": made_up()["ranges"]})
    command.main(["ranges", "--containers", str(SIZE), "--rounds", "2", "--save"])
    kept = load(tmp_path, WORKLOADS)
    assert list(kept) == ["ranges", "latency"]
    assert kept["ranges"]["title"] != "made up" and kept["latency"]["title"] == "made up"
    assert "| `ranges` |" in figures.read_text()
    assert "| judge 10 million containers" in readme.read_text()


def test_scaling_in_small() -> None:
    report = scaling(Options(rounds=2, containers=10_000))
    assert {t.n for t in report.timings} == {1000, 10_000}
    assert {OWN, "NumPy", "pyarrow"} <= {t.engine for t in report.timings}


def test_ingest_in_small() -> None:
    report = ingest(Options(rounds=2, containers=SIZE))
    assert {t.engine for t in report.timings} == {OWN, "NumPy"}
    assert [q.met for q in report.requirements if "share" in q.text] == [True, True]


def test_gpu_in_small(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The GPU workload on a stand-in device: its answers, and that it reports figures."""

    def copying(device: Any, size: int) -> Any:
        return lambda: device.upload(np.zeros(size // 8))

    def prepare(columns: Any, first: int, stop: int) -> Any:
        def run() -> Any:
            pairs = [(device.download(low), device.download(high)) for low, high in columns]
            tests = [(high >= first) & (low < stop) for low, high in pairs]
            return device.upload(np.logical_and.reduce(tests))

        return run

    peer = gpu.Peer("Another", "numpy", prepare)
    for name, value in {"BURST": 1, "WIDTHS": (1, 2), "SHAPES": gpu.SHAPES[2:6:2]}.items():
        monkeypatch.setattr(gpu, name, value)
    report = gpu.measured(
        device,
        copying,
        (peer, gpu.Peer("Nobody", "no_such_module", lambda *_: lambda: None)),
        (SIZE,),
        Options(rounds=1),
    )
    assert [row["containers x bytes"] for row in report.rows] == ["1,000 x 16", "1,000 x 32"]
    assert {t.engine for t in report.timings} == {OWN, gpu.COPY, "Another"}
    assert [(a.engine, a.why) for a in report.absent] == [("Nobody", "it is not installed")]
    assert report.requirements == []


def test_without_a_gpu_nothing_is_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(number: int | None = None) -> Any:
        raise BackendMissing("there is none")

    monkeypatch.setattr(gpu.cupy_gpu, "device", missing)
    report = gpu.gpu(Options())
    assert not report.rows and not report.timings and not report.requirements
    assert [(a.engine, a.why) for a in report.absent] == [("the GPU", "there is none")]
    assert report.notes == ["Nothing was measured."]


def test_files_in_small() -> None:
    pytest.importorskip("deltalake")
    report = files(Options(rounds=1, containers=SIZE))
    assert all(q.met for q in report.requirements)
    assert {row["answer"] for row in report.rows} == {"right"}
    engines = {t.engine for t in report.timings} | {a.engine for a in report.absent}
    assert {OWN, "pyarrow", "pyiceberg", "deltalake", "DuckDB", "Polars", "DataFusion"} <= engines


def test_who_loses_rows_is_shown_and_who_is_missing_is_named(tmp_path: Path) -> None:
    lake = make_parquet(tmp_path / "lake", SIZE, 2)
    assert lake.some and lake.every < lake.some

    def greedy(lake: Lake) -> Contestant:
        return Contestant("Greedy", "one too few", lambda: sorted(lake.some)[1:], by_position)

    def careful(lake: Lake) -> Contestant:
        return Contestant("Careful", "everything", lambda: range(lake.containers), by_position)

    def missing(lake: Lake) -> Contestant:
        raise ImportError("No module named 'duckdb'", name="duckdb")

    report = Report("")
    task = Task(
        "plan",
        "may",
        "parquet",
        (parquet.own_cold, greedy, careful, missing),
        {"Another": "it cannot"},
    )
    assert compete(task, lake, Options(rounds=1), report) == 0
    assert [row["answer"] for row in report.rows] == ["right", "loses rows (1)", "right"]
    assert [row["kept"] for row in report.rows] == [
        str(len(lake.some)),
        str(len(lake.some) - 1),
        f"{SIZE:,}",
    ]
    assert [(a.engine, a.group) for a in report.absent] == [("DuckDB", "plan"), ("Another", "plan")]


@pytest.fixture(scope="module")
def lineitem(tmp_path_factory: pytest.TempPathFactory) -> Data:
    for package in ("polars", "duckdb", "datafusion", "deltalake", "pyiceberg", "sqlalchemy"):
        pytest.importorskip(package)
    return Data(tmp_path_factory.mktemp("lineitem"), scale=0.01)


def test_rows_in_small(lineitem: Data) -> None:
    lakes = [x for x in layouts(4, 4) if x.name in ("sorted+pages", "delta", "iceberg")]
    report = rows.measured(lineitem, lakes, Options(rounds=1, only=("warm",)))
    assert {row[""].partition(", ")[0] for row in report.rows} == {x.name for x in lakes}
    assert len(report.rows) == len(lakes) * 7 and all(row["/best"] > 0 for row in report.rows)
    assert {t.engine for t in report.timings if t.group == "iceberg"} == {"Polars", "pyiceberg"}
    assert {(a.engine, a.group) for a in report.absent} == {
        (engine, lake)
        for engine in ("DuckDB", "DataFusion", "pyarrow")
        for lake in ("delta", "iceberg")
    }


def test_rows_of_one_engine_and_question(lineitem: Data) -> None:
    one = layouts(4, 4)[:1]
    report = rows.measured(lineitem, one, Options(rounds=1, only=("none", OWN)))
    assert [row[""] for row in report.rows] == ["one, none", "one, none, fresh"]
    assert all(row[OWN] > 0 and "Polars" not in row for row in report.rows)
    assert report.rows[0]["MB"] == "" or 0 < report.rows[0]["MB"] < 1
    with pytest.raises(ValueError, match="--only names 'noon'; expected any of one, day, "):
        rows.measured(lineitem, one, Options(only=("noon",)))


def test_rows_that_differ_are_not_timed() -> None:
    right = Rows(pa.table({"x": [1, 2, 2], "y": ["a", "b", "c"]}))
    right.check("Other order and types", pa.table({"x": [2.0, 2.0, 1.0], "y": ["c", "b", "a"]}))
    for x, y in [([1, 2], ["a", "b"]), ([1, 2, 2], ["a", "b", "b"]), ([1, 1, 2], ["a", "b", "c"])]:
        with pytest.raises(WrongAnswer, match="Other rows"):
            right.check("Other rows", pa.table({"x": x, "y": y}))


def test_computed_in_small() -> None:
    pytest.importorskip("duckdb")
    report = computed.measured(300_000, Options(rounds=1, only=("decimal / int", "lower, LIKE")))
    assert [row[""] for row in report.rows] == ["decimal / int", "lower, LIKE"]
    assert all(row["/DuckDB"] > 0 for row in report.rows) and len(report.requirements) == 1


def test_remote_in_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("polars", "deltalake", "ministack"):
        pytest.importorskip(package)
    monkeypatch.setattr(remote, "FOLDER", tmp_path)
    monkeypatch.setattr(remote, "ROWS", 200)
    monkeypatch.setattr(remote, "LARGE_ROWS", 400)
    report = remote.remote(Options(containers=800, rounds=1))
    asked = {f"{name}, {format}" for name in remote.questions(800) for format in remote.ENGINES}
    assert {t.group for t in report.timings} == asked
    assert len(report.timings) == 3 * len(asked) and len(report.requirements) == 3


def test_kinds_in_small(tmp_path: Path) -> None:
    for package in ("polars", "duckdb"):
        pytest.importorskip(package)
    report = kinds.measured(tmp_path, 20_000, 4, Options(rounds=1))
    assert {t.group for t in report.timings} == set(kinds.QUESTIONS)
    assert len(report.timings) == 3 * len(kinds.QUESTIONS) - 1 and len(report.requirements) == 1


@only_long
def test_handover_in_small(tmp_path: Path) -> None:
    for package in ("polars", "duckdb", "deltalake", "pyiceberg", "sqlalchemy"):
        pytest.importorskip(package)
    report = handover.measured(tmp_path, 40, Options(rounds=1))
    assert {t.group for t in report.timings} == {"Delta", "Iceberg"}
    opened = {row[""]: row["files opened"] for row in report.rows}
    assert len(opened) == 8 and report.absent == []
    assert all(n == 20 for name, n in opened.items() if OWN in name), opened


def test_plots(measured: dict[str, Any], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    report = scaling(Options(rounds=2, containers=1000))
    save(tmp_path, {**measured, "scaling": as_json(report, Options(), {})})
    assert command.main(["plot", str(tmp_path)]) == 0
    drawn = {path.name: path.read_bytes() for path in (tmp_path / "plots").glob("*.png")}
    assert drawn.keys() == {"scaling.png", "limit.png", "peers.png"}
    assert all(png.startswith(b"\x89PNG") and len(png) < 100_000 for png in drawn.values())


def test_nothing_to_draw(tmp_path: Path) -> None:
    save(tmp_path, {"power": as_json(Report("nothing"), Options(), machine())})
    assert command.main(["plot", str(tmp_path)]) == 0
    assert list(tmp_path.rglob("*.png")) == []
    assert markdown.markdown(load(tmp_path)) == markdown.highlights(load(tmp_path)) == ""


def test_readme_and_figures_show_the_saved_results() -> None:
    saved = load(FOLDER, WORKLOADS)
    assert saved.keys() <= WORKLOADS.keys()
    assert set(USUAL) <= WORKLOADS.keys()
    for path, text in (
        (markdown.README, markdown.highlights(saved)),
        (markdown.FIGURES, markdown.markdown(saved)),
    ):
        block = f"{markdown.BEGIN}\n{text}\n{markdown.END}"
        assert block in path.read_text(encoding="utf-8")


def test_every_highlight_is_measured() -> None:
    """A workload or group of another name would leave the README without a word."""
    text = markdown.highlights(load(FOLDER, WORKLOADS))
    assert [words for words in markdown.SHOWN.values() if f"| {words} |" not in text] == []
    assert [name for name in markdown.IN_SPARK if f"| `{name}`, " not in text] == []
