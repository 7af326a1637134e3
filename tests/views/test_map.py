"""Maps as pages, files and figures, from Python and from the shell."""

import json
import os
import re
import sys
import types
import webbrowser
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skipstone as ss
from skipstone.bindings.views.map import Map
from skipstone.ir.errors import BackendMissing, PredicateError, UnknownColumn
from tests.support.effort import LONG
from tests.support.shell import run
from tests.support.views import plan_over

SCHEMA = pa.schema([("x", pa.int64()), ("s", pa.string())])


@pytest.fixture
def folder(tmp_path):
    rows = pa.table({"x": range(100), "s": [f"k{k:02}" for k in range(100)]})
    pq.write_table(rows, tmp_path / "t.parquet", row_group_size=10)
    return tmp_path


def data_of(page):
    """Return the data that a page holds."""
    found = re.search(r'<script type="application/json" id="picture">(.*?)</script>', page)
    return json.loads(found.group(1))


def test_a_page_is_complete(folder):
    made = ss.scan(str(folder)).map("x", "s", where="x >= 95")
    page = made.to_html()
    assert repr(made) == "Map(1 of 10 row groups is read, columns: x, s)"
    assert "<title>1 of 10 row groups is read</title>" in page
    assert [c["name"] for c in data_of(page)["columns"]] == ["x", "s"]
    # It loads nothing.
    assert not re.search(r"https?://|src=|@import|url\(", page)


def test_text_of_the_table_is_data_and_never_markup(tmp_path):
    evil = "</script><script>alert(1)</script>&\"'"
    schema = pa.schema([(evil, pa.string())])
    stats = ss.Statistics.from_dict({f"`{evil}`": {"min": [evil], "max": [evil]}}, schema)
    plan = plan_over(stats, f'`{evil}` > "<img onerror=x>"', folder="/<b>")
    made = Map(plan)
    page = made.to_html()
    assert page.count("<script") == 2
    assert "<img" not in page
    assert "<b>" not in page
    assert (
        data_of(page)["columns"][0]["name"] == f"`{evil}`"
        or evil in data_of(page)["columns"][0]["name"]
    )
    assert "<script>alert" not in made._repr_html_()


def test_pages_of_a_million_containers_are_small():
    n, names = (1_000_000, "abcdefgh") if LONG else (200_000, "ab")
    low = np.arange(n) * 7919 % n
    schema = pa.schema([(name, pa.int64()) for name in names])
    bounds = {"min": low, "max": low + 500}
    stats = ss.Statistics.from_dict(dict.fromkeys(names, bounds), schema)
    plan = plan_over(stats, "a > 100 AND b > 20000 AND a < 600000")
    page = Map(plan, list(names)).to_html()
    assert len(page.encode()) < (2_000_000 if LONG else 800_000)
    assert sum(data_of(page)["columns"][0]["marks"]["count"]) == n


def test_columns_default_to_those_of_the_condition(folder):
    table = ss.scan(str(folder))
    cases = {"s > 'k5' AND x < 3": ("s", "x"), "x IN (1, 2)": ("x",), None: ("x",)}
    for where, columns in cases.items():
        assert table.map(where=where).columns == columns


def test_wrong_columns_are_named(folder):
    plan = ss.scan(str(folder)).plan()
    with pytest.raises(UnknownColumn, match="a map names 'y'; the schema has 'x', 's'"):
        plan.show(folder / "map.html", columns=["y"])
    with pytest.raises(PredicateError, match="a map shows at most 8 columns; got 9"):
        Map(plan, list("abcdefghi"))


@pytest.mark.parametrize("name", ["m.html", "m.HTM", "m.png", "m.svg"])
def test_files(folder, name, monkeypatch):
    if not name.lower().endswith(("html", "htm")):
        pytest.importorskip("matplotlib")
    monkeypatch.setattr("skipstone.bindings.views.map.has_browser", lambda: False)
    path = ss.scan(str(folder)).plan("x > 90").show(folder / name)
    assert path == str(folder / name)
    starts = {"html": b"<!doctype", "htm": b"<!doctype", "png": b"\x89PNG", "svg": b"<?xml"}
    with open(path, "rb") as file:
        assert file.read(9).startswith(starts[name.rpartition(".")[2].lower()])


def test_other_files_are_refused(folder):
    with pytest.raises(PredicateError, match=r"its name ends in '.gif'; expected .html, .png"):
        ss.scan(str(folder)).map("x").save(folder / "map.gif")
    with pytest.raises(PredicateError, match=r"its name has no ending; expected .html, .png"):
        ss.scan(str(folder)).map("x").save(folder / "map")


def test_a_terminal_opens_the_browser_if_there_is_one(folder, monkeypatch):
    opened = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    plan = ss.scan(str(folder)).plan("x > 90")
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    first = plan.show()
    assert opened == []
    monkeypatch.setenv("DISPLAY", ":0")
    second = plan.show()
    assert opened == [f"file://{second}"]
    for path in (first, second):
        assert os.path.basename(path).startswith("skipstone-map-")
        os.unlink(path)


def test_a_notebook_shows_the_map_in_its_cell(folder, monkeypatch):
    shown = []
    notebook = types.SimpleNamespace(
        get_ipython=lambda: types.SimpleNamespace(kernel=1),
        display=types.SimpleNamespace(display=shown.append),
    )
    monkeypatch.setitem(sys.modules, "IPython", notebook)
    assert ss.scan(str(folder)).plan("x > 90").show() is None
    html = shown[0]._repr_html_()
    assert html.startswith('<div><iframe srcdoc="&lt;!doctype html&gt;')
    assert html.count("<") == 4  # nothing of the page itself


def test_without_matplotlib_a_figure_says_what_to_do(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(BackendMissing, match=r'pip install "skipstone\[plot\]", or write the map'):
        ss.scan(str(folder)).plan("x > 90").plot()


KINDS = {
    "numbers": (pa.float64(), [0.0, None, 5.5], [1.5, 2.5, float("inf")]),
    "strings": (pa.string(), ["$a", "b$", None], ["$c$", "d", "e"]),
    "times": (pa.timestamp("us", "UTC"), [0, 10**15, 2 * 10**15], [10**14, 10**15, 2 * 10**15]),
    "far times": (pa.timestamp("us"), [-(2**62), 0, 0], [0, 2**62, 1]),
    "large": (pa.int64(), [2**60, 2**60 + 5, None], [2**60 + 3, 2**60 + 9, None]),
    "no containers": (pa.int64(), [], []),
}


@pytest.mark.parametrize(("kind", "low", "high"), KINDS.values(), ids=KINDS)
def test_figures_of_every_kind(kind, low, high):
    pytest.importorskip("matplotlib")
    schema = pa.schema([("x", kind), ("y", pa.int64())])
    given = kind if kind in (pa.string(), pa.float64()) else pa.int64()
    bounds = {k: pa.array(v, given).cast(kind) for k, v in (("min", low), ("max", high))}
    other = {"min": [*range(len(low))], "max": [9] * len(low)}
    stats = ss.Statistics.from_dict({"x": bounds, "y": other}, schema)
    figure = Map(plan_over(stats, "y > 2"), ["x", "y"]).plot()
    assert figure._repr_png_().startswith(b"\x89PNG")
    titles = [ax.get_title(loc="left") for ax in figure.axes]
    assert titles[-1] == "y against x"


def test_a_figure_of_many():
    pytest.importorskip("matplotlib")
    low = np.arange(5000)
    stats = ss.Statistics.from_dict(
        {"x": {"min": low, "max": low + 50}, "y": {"min": -low, "max": -low}},
        pa.schema([("x", pa.int64()), ("y", pa.int64())]),
    )
    figure = Map(plan_over(stats, "x > 4000 AND y > -4500"), ["x", "y"]).plot()
    assert figure._repr_png_().startswith(b"\x89PNG")
    assert figure.get_suptitle().startswith("549 of 5,000 files are read\n")


def test_a_figure_shows_few_containers_that_are_read():
    """Of the 200 files of a cell, one is read: its part of the strip is seen all the same."""
    pytest.importorskip("matplotlib")
    low = np.arange(100_000)
    bounds = {"x": {"min": low, "max": low, "null_count": 0 * low}}
    stats = ss.Statistics.from_dict(bounds, pa.schema([("x", pa.int64())]), row_count=[1] * 100_000)
    figure = Map(plan_over(stats, "x = 5"), ["x"]).plot()
    (strip,) = [ax for ax in figure.axes if "conjunct" in ax.get_title(loc="left")]
    heights = {
        hex_of(drawn): max(np.ptp(path.vertices[:, 1]) for path in drawn.get_paths())
        for drawn in strip.collections
        if drawn.get_paths()
    }
    assert heights["#15803d"] >= 0.05
    assert heights["#c3c9d0"] == pytest.approx(0.5)
    strip.figure.canvas.draw()
    assert [t.get_text() for t in strip.get_xticklabels()][1] == "20,000"
    assert strip.xaxis.get_offset_text().get_text() == ""


def hex_of(drawn):
    """Return the colour of a drawn collection, as #rrggbb."""
    from matplotlib.colors import to_hex

    return to_hex(drawn.get_facecolor()[0])


def test_numbers_and_ranks_of_a_figure_read_as_on_the_page():
    pytest.importorskip("matplotlib")
    n = 12_000
    stats = ss.Statistics.from_dict(
        {"s": {"min": ["a", "b"] * (n // 2), "max": ["c"] * n}}, pa.schema([("s", pa.string())])
    )
    depth, ranges = Map(plan_over(stats, None), ["s"]).plot().axes[:2]
    depth.figure.canvas.draw()
    assert "5,000" in [t.get_text() for t in depth.get_yticklabels()]
    assert ranges.get_xlabel() == "s (in order, not to scale)"


def test_the_command(folder):
    target = folder / "map.html"
    result = run(
        "map", str(folder / "t.parquet"), "--column", "x", "-w", "x > 90", "-o", str(target)
    )
    assert (result.returncode, result.stdout) == (0, f"{target}\n")
    assert result.stderr == "1 of 10 row groups is read, columns: x\n"
    assert data_of(target.read_text())["kept"] == 1


def test_the_command_without_a_file(folder, monkeypatch):
    monkeypatch.setattr("skipstone.bindings.views.map.has_browser", lambda: False)
    result = run("map", str(folder / "t.parquet"))
    path = result.stdout.strip()
    assert (result.returncode, data_of(Path(path).read_text())["kept"]) == (0, 10)
    os.unlink(path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-c", "y"], "UnknownColumn: a map names 'y'; the schema has 'x', 's'"),
        (
            ["-o", "map.gif"],
            "PredicateError: cannot write a map to 'map.gif': its name ends in '.gif'",
        ),
    ],
)
def test_the_command_explains_mistakes(folder, arguments, message):
    result = run("map", str(folder / "t.parquet"), *arguments)
    assert result.returncode == 2
    assert result.stderr.startswith(f"skipstone: {message}")
