"""The benchmark harness: timings, comparison, tables and plots.

Figures here are made up; `test_bench_runs.py` measures.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench import __main__ as command
from bench.report import markdown, results
from bench.report.bandwidth import BANDWIDTH
from bench.report.compare import compare
from bench.report.measure import YARDSTICK, Spread, Timing, interleave, spread, yardstick
from bench.report.report import Options, WrongAnswer, equal
from bench.report.results import load, save
from bench.report.show import table
from tests.support.bench_results import made_up


def names(changes: list[Any]) -> list[str]:
    return [c.name for c in changes]


# Timings.


def test_spread_of_rounds() -> None:
    s = spread([float(i) for i in range(1, 12)])
    assert s == Spread(median=6, q10=2, q90=10)
    assert spread([2.0]) == Spread(2, 2, 2)


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


# Saved results.


def test_results_round_trip(tmp_path: Path) -> None:
    made = made_up()
    save(tmp_path / "new", made)
    assert load(tmp_path / "new") == made
    timed = made["ranges"]["timings"][1]
    assert timed.keys() == {
        *("name", "engine", "group", "rounds", "reference", "to_reference", "share")
    }
    assert timed["rounds"] == 20 and timed["reference"] == BANDWIDTH
    assert timed["to_reference"] == {"median": 1.25, "q10": 1.23, "q90": 1.27}
    assert made["ranges"]["timings"][2]["to_own"]["median"] == 3
    assert "seconds" in made_up(reference=False)["ranges"]["timings"][1]
    ran = made["ranges"]["ran"]
    assert (
        ran["versions"]["numpy"]
        and ran["date"]
        and ran["options"]["containers"] == Options.containers
    )


def floats(value: Any) -> Iterator[float]:
    if isinstance(value, float):
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from floats(inner)


def test_files_are_sorted_and_rounded_and_one_for_each_workload(tmp_path: Path) -> None:
    made = {**made_up(own=1 / 97), "power": made_up(own=1 / 89)["ranges"]}
    save(tmp_path, made)
    assert {path.name for path in tmp_path.iterdir()} == {"power.json", "ranges.json"}
    for path in tmp_path.iterdir():
        text = path.read_text()
        found = json.loads(text)
        assert text == json.dumps(found, indent=1, sort_keys=True) + "\n"
        assert len(list(floats(found))) > 10
        assert all(value == float(f"{value:.3g}") for value in floats(found))
    assert list(load(tmp_path)) == ["power", "ranges"]
    assert list(load(tmp_path, ["ranges", "absent"])) == ["ranges", "power"]


def test_equal_figures_leave_files_as_they_are(tmp_path: Path) -> None:
    save(tmp_path, made_up())
    before = (tmp_path / "ranges.json").read_bytes()
    later = made_up(own=0.010000001)
    later["ranges"]["ran"] |= {"date": "2100-01-01", "load": 77.0}
    save(tmp_path, later)
    assert (tmp_path / "ranges.json").read_bytes() == before
    later["ranges"]["ran"]["versions"]["numpy"] = "99"
    save(tmp_path, later)
    assert load(tmp_path)["ranges"]["ran"]["date"] == "2100-01-01"


def test_other_places_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="holds no results"):
        load(tmp_path)
    with pytest.raises(ValueError, match="is no folder, and no git revision"):
        load(tmp_path / "absent")
    (tmp_path / "ranges.json").write_text("[]")
    with pytest.raises(ValueError, match=r"ranges\.json holds no results"):
        load(tmp_path)


def test_results_of_a_revision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def git(*arguments: str) -> None:
        identity = ("-c", "user.name=a", "-c", "user.email=a@b")
        subprocess.run(["git", *identity, *arguments], cwd=tmp_path, check=True)

    monkeypatch.setattr(results, "CHECKOUT", tmp_path)
    monkeypatch.setattr(results, "FOLDER", tmp_path / "bench" / "results")
    measured = made_up()  # with the machine's load, which changes
    save(results.FOLDER, measured)
    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "Measure")
    save(results.FOLDER, made_up(own=0.02))
    assert load("HEAD") == measured
    assert names(compare(load("HEAD"), load(results.FOLDER)).slower) == ["Numba, prune"]


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
    new["ranges"]["ran"]["processor"] = "another"
    new["ranges"]["ran"]["versions"]["polars"] = "99"
    new["power"] = old["ranges"]
    text = str(compare(old, new))
    assert "ranges: processor was" in text and "is another" in text
    assert "ranges: polars was" in text
    assert "power: only in the new results" in text
    assert "faster by more than the spread" in text and "ranges: Numba, prune" in text


def test_compare_needs_a_reference_on_another_machine() -> None:
    old, new = made_up(reference=False), made_up(own=0.020, reference=False)
    found = compare(old, new)
    assert names(found.slower) == ["Numba, prune"] and found.slower[0].unit == "seconds"
    new["ranges"]["ran"]["cpus"] = 999
    found = compare(old, new)
    assert not found.changes
    assert any("no common reference: Numba, prune, Polars" in note for note in found.notes)


def test_compare_refuses_other_sizes() -> None:
    old, new = made_up(), made_up(own=0.020)
    new["ranges"]["containers"] = 5
    assert any(
        "not compared: the old run has 1,000 containers, the new one 5 containers" in note
        for note in compare(old, new).notes
    )


def test_few_rounds_and_busy_machines_prove_nothing() -> None:
    old, new = made_up(), made_up(own=0.020)
    new["ranges"]["timings"][1]["rounds"] = 4
    new["ranges"]["ran"] |= {"cpus": 2, "load": 9.0}
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
    paths = [str(tmp_path / f"{own}") for own in (0.01, 0.02)]
    for path, own in zip(paths, (0.01, 0.02), strict=True):
        save(Path(path), made_up(own=own))
    assert command.main(["compare", *paths]) == 1
    assert "slower by more than the spread" in capsys.readouterr().out
    assert command.main(["compare", *reversed(paths)]) == 0
    with pytest.raises(SystemExit, match="2"):
        command.main(["compare", paths[0], str(tmp_path / "absent")])
    with pytest.raises(SystemExit, match="2"):
        command.main(["nothing"])


# Tables.


def test_markdown() -> None:
    text = markdown.markdown(made_up())
    assert "| `ranges` | Share \\| of the bandwidth (Numba) | 0.80 | ≥ 0.5 | yes |" in text
    assert "| `ranges` | 3.00 |" in text
    assert "1 of 1 goals are met." in text
    missed = markdown.markdown(made_up(own=0.020))
    assert "| **no** |" in missed and "0 of 1 goals are met." in missed
    few = markdown.highlights(made_up())
    assert "| judge 10 million containers in memory | 3.00 |" in few
    assert "1 of 1 goals" in few


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
