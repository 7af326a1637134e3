"""The benchmark harness: timings, comparison, tables and plots.

Figures here are made up, apart from tiny runs.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench import __main__ as command
from bench import gpu, markdown, results
from bench.compare import compare
from bench.files import compete, files, parquet
from bench.files.lake import Lake, make_parquet
from bench.files.task import Contestant, Task, by_position
from bench.ingest import ingest
from bench.measure import BANDWIDTH, YARDSTICK, Spread, Timing, interleave, spread, yardstick
from bench.report import OWN, Options, Report, Requirement, WrongAnswer, equal
from bench.results import as_json, load, machine, save
from bench.scaling import scaling
from bench.show import table
from bench.workloads import USUAL, WORKLOADS
from skipstone.ir.errors import BackendMissing

SIZE = 1000


def steady(seconds: float, rounds: int = 20, noise: float = 0.02) -> Timing:
    """Make a timing whose rounds vary by a share of `noise`."""
    return Timing(tuple(seconds * (1 + noise * (2 * i / (rounds - 1) - 1)) for i in range(rounds)))


def made_up(
    own: float = 0.010, peer: float = 0.030, bandwidth: float = 0.008, noise: float = 0.02
) -> dict[str, Any]:
    """Make results of one workload whose contestants have equal noise."""
    report = Report("made up", 1000)
    limit, ours = steady(bandwidth, noise=0), steady(own, noise=noise)
    report.time(BANDWIDTH, limit, engine=BANDWIDTH)
    report.time("Numba, prune", ours, (BANDWIDTH, limit), own=ours, share=bandwidth / own)
    report.time(
        "Polars",
        steady(peer, noise=noise),
        (BANDWIDTH, limit),
        own=ours,
        engine="Polars",
        share=bandwidth / peer,
    )
    report.leave_out("DuckDB", "it is not installed")
    report.requirements.append(
        Requirement("Share | of the bandwidth (Numba)", bandwidth / own, 0.5)
    )
    where = machine()
    return {
        "machine": where,
        "workloads": {"ranges": json.loads(json.dumps(as_json(report, Options(), where)))},
    }


def names(changes: list[Any]) -> list[str]:
    return [c.name for c in changes]


# Timings.


def test_spread_of_rounds() -> None:
    s = spread([float(i) for i in range(1, 12)])
    assert s == Spread(median=6, best=1, q10=2, q25=3.5, q75=8.5, q90=10, rounds=11)
    assert spread([2.0]) == Spread(2, 2, 2, 2, 2, 2, 1)


def test_ratios_are_of_the_same_round() -> None:
    slow, fast = Timing((2.0, 20.0, 6.0)), Timing((1.0, 10.0, 2.0))
    assert slow.ratios(fast) == (2, 2, 3)
    with pytest.raises(ValueError):
        slow.ratios(Timing((1.0,)))


def test_bursts_run_more_often() -> None:
    calls = [0]

    def run() -> None:
        calls[0] += 1

    timings = interleave({"": run, YARDSTICK: yardstick}, 3, burst=5)
    assert calls[0] == 1 + 3 * 6
    assert len(timings[""].seconds) == 3


def test_wrong_answers_are_not_timed() -> None:
    with pytest.raises(WrongAnswer, match="Polars answers differently: 1 kept, expected 2"):
        equal("Polars", [True, False], [True, True])


# JSON.


def test_json_round_trip(tmp_path: Path) -> None:
    made = made_up()
    save(tmp_path / "new" / "a.json", made["machine"], made["workloads"])
    assert load(tmp_path / "new" / "a.json") == made
    timed = made["workloads"]["ranges"]["timings"][1]
    assert timed["seconds"].keys() == {"median", "best", "q10", "q25", "q75", "q90", "rounds"}
    assert timed["seconds"]["rounds"] == 20
    assert timed["reference"] == BANDWIDTH and timed["to_reference"]["median"] == pytest.approx(
        1.25
    )
    ran = made["workloads"]["ranges"]["ran"]
    assert (
        ran["versions"]["numpy"]
        and ran["date"]
        and ran["options"]["containers"] == Options.containers
    )


def test_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text("[]")
    with pytest.raises(ValueError, match="holds no results"):
        load(path)


# Compare.


@pytest.mark.parametrize(
    "old, new, slower, worse",
    [
        ({}, {}, [], False),
        ({}, {"own": 0.015}, ["Numba, prune"], True),
        ({}, {"own": 0.007}, [], False),
        ({}, {"peer": 0.060}, ["Polars"], False),  # a slower peer is reported, but not an error
        ({}, {"own": 0.0105}, [], False),  # beyond the rounds, within the tolerance
        ({"noise": 0.5}, {"own": 0.013, "noise": 0.5}, [], False),  # within the spread
        # The whole machine got slower.
        ({}, {"own": 0.020, "peer": 0.060, "bandwidth": 0.016}, [], False),
        # The machine got faster, the contestants did not.
        ({}, {"bandwidth": 0.004}, ["Numba, prune", "Polars"], True),
    ],
)
def test_slower_by_more_than_the_spread(
    old: dict[str, float], new: dict[str, float], slower: list[str], worse: bool
) -> None:
    found = compare(made_up(**old), made_up(**new))
    assert (names(found.slower), found.worse) == (slower, worse)
    assert "2 figures compared" in str(found)


def test_compare_says_what_differs() -> None:
    old, new = made_up(), made_up(own=0.005)
    new["workloads"]["ranges"]["ran"]["processor"] = "another"
    new["workloads"]["ranges"]["ran"]["versions"]["polars"] = "99"
    new["workloads"]["power"] = old["workloads"]["ranges"]
    text = str(compare(old, new))
    assert "ranges: processor was" in text and "is another" in text
    assert "ranges: polars was" in text
    assert "power: only in the new results" in text
    assert "faster by more than the spread" in text and "ranges: Numba, prune" in text


def test_compare_needs_a_reference_on_another_machine() -> None:
    old, new = made_up(), made_up(own=0.020)
    for made in (old, new):
        for timed in made["workloads"]["ranges"]["timings"]:
            timed["reference"] = timed["to_reference"] = None
    found = compare(old, new)
    assert names(found.slower) == ["Numba, prune"] and found.slower[0].unit == "seconds"
    new["workloads"]["ranges"]["ran"]["cpus"] = 999
    found = compare(old, new)
    assert not found.changes
    assert any("no common reference: Numba, prune, Polars" in note for note in found.notes)


def test_compare_refuses_other_sizes_and_old_files() -> None:
    old, new = made_up(), made_up(own=0.020)
    new["workloads"]["ranges"]["containers"] = 5
    assert any(
        "not compared: the old run has 1,000 containers, the new one 5 containers" in note
        for note in compare(old, new).notes
    )
    bare = copy.deepcopy(old)
    for key in ("ran", "timings", "containers", "absent"):
        bare["workloads"]["ranges"].pop(key)
    assert not compare(bare, old).worse


def test_few_rounds_and_busy_machines_prove_nothing() -> None:
    old, new = made_up(), made_up(own=0.020)
    new["workloads"]["ranges"]["timings"][1]["seconds"]["rounds"] = 4
    new["workloads"]["ranges"]["ran"] |= {"cpus": 2, "load": 9.0}
    found = compare(old, new)
    assert names(found.changes) == ["Polars"]
    assert "ranges: not compared, fewer than 5 rounds: Numba, prune" in found.notes
    assert "ranges: the new run shared its 2 CPUs with other work: load 9.0" in found.notes


def test_requirements_that_broke() -> None:
    assert (
        "ranges: no longer met: Share | of the bandwidth (Numba)"
        in compare(made_up(), made_up(own=0.020)).notes
    )


def test_exit_codes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [str(tmp_path / f"{own}.json") for own in (0.01, 0.02)]
    for path, own in zip(paths, (0.01, 0.02), strict=True):
        save(Path(path), {}, made_up(own=own)["workloads"])
    assert command.main(["compare", *paths]) == 1
    assert "slower by more than the spread" in capsys.readouterr().out
    assert command.main(["compare", *reversed(paths)]) == 0
    with pytest.raises(SystemExit, match="2"):
        command.main(["compare", paths[0], str(tmp_path / "absent.json")])
    with pytest.raises(SystemExit, match="2"):
        command.main(["nothing"])


# Tables.


def test_markdown() -> None:
    text = markdown.markdown(made_up())
    assert "| `ranges` | Share \\| of the bandwidth (Numba) | 0.80 | ≥ 0.5 | yes |" in text
    assert "| `ranges` | 3.00 |" in text
    assert "<summary>1 of 1 requirements are met</summary>" in text
    missed = markdown.markdown(made_up(own=0.020))
    assert (
        "| **no** |" in missed
        and "<summary>0 of 1 requirements are met; not ranges: Share | of the bandwidth (Numba)"
        in missed
    )


def test_block_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "README.md"
    path.write_text(f"before\n{markdown.BEGIN}\nold\n{markdown.END}\nafter\n")
    assert markdown.replace_block(path, "new") and markdown.replace_block(path, "new")
    assert path.read_text() == f"before\n{markdown.BEGIN}\nnew\n{markdown.END}\nafter\n"
    path.write_text("no marks\n")
    assert not markdown.replace_block(path, "new")
    assert path.read_text() == "no marks\n"


def test_rows_have_the_same_columns() -> None:
    assert (
        table([{"": "a", "ms": 1.234}, {"": "bb", "ms": 1234.0}])
        == "       ms\na    1.23\nbb  1,234"
    )
    with pytest.raises(ValueError, match="different columns"):
        table([{"": "a"}, {"b": 1}])


# Real but tiny runs. Only what they save is tested, never how long anything took.


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    path = tmp_path_factory.mktemp("bench") / "a.json"
    command.main(["ranges", "--containers", str(SIZE), "--rounds", "2", "--json", str(path)])
    return load(path)


def test_a_run_keeps_every_contestant(measured: dict[str, Any]) -> None:
    found = measured["workloads"]["ranges"]
    assert found["containers"] == SIZE
    timings = {t["name"]: t for t in found["timings"]}
    assert {BANDWIDTH, "Numba, prune", "NumPy by hand"} <= timings.keys()
    assert all(
        t["seconds"]["rounds"] == 2 and t["reference"] == BANDWIDTH and t["share"] > 0
        for name, t in timings.items()
        if name != BANDWIDTH
    )
    assert compare(measured, measured).slower == []


def test_saving_keeps_other_workloads(
    measured: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    latest, readme = tmp_path / "latest.json", tmp_path / "README.md"
    readme.write_text(f"{markdown.BEGIN}\n{markdown.END}\n")
    monkeypatch.setattr(command, "LATEST", latest)
    monkeypatch.setattr(command, "FOLDER", tmp_path)
    monkeypatch.setattr(command, "README", readme)
    monkeypatch.setattr(command, "draw", lambda results, folder: [])
    save(latest, {}, {"ranges": {}, "latency": made_up()["workloads"]["ranges"]})
    command.main(["ranges", "--containers", str(SIZE), "--rounds", "2", "--save"])
    kept = load(latest)["workloads"]
    assert list(kept) == ["ranges", "latency"]
    assert kept["ranges"]["containers"] == SIZE and kept["latency"]["title"] == "made up"
    assert "| `ranges` |" in readme.read_text()


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


def test_plots(measured: dict[str, Any], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    report = scaling(Options(rounds=2, containers=1000))
    both = {
        **measured["workloads"],
        "scaling": json.loads(json.dumps(as_json(report, Options(), {}))),
    }
    save(tmp_path / "a.json", {}, both)
    assert command.main(["plot", str(tmp_path / "a.json")]) == 0
    drawn = {path.name: path.read_bytes() for path in tmp_path.glob("*.png")}
    assert drawn.keys() == {"scaling.png", "limit.png", "peers.png"}
    assert all(png.startswith(b"\x89PNG") and len(png) < 100_000 for png in drawn.values())


def test_nothing_to_draw(tmp_path: Path) -> None:
    save(tmp_path / "a.json", {}, {})
    assert command.main(["plot", str(tmp_path / "a.json")]) == 0
    assert list(tmp_path.glob("*.png")) == []
    assert markdown.markdown(load(tmp_path / "a.json")) == ""


def test_saved_results_are_readable() -> None:
    saved = load(results.LATEST)
    assert saved["workloads"].keys() <= WORKLOADS.keys()
    assert set(USUAL) <= WORKLOADS.keys()
    assert "| workload | requirement |" in markdown.markdown(saved)
