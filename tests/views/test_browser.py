"""The map's page in a real Chromium: hover, zoom, filter, keys, and no errors in the console.

`make browser` installs Chromium and runs these tests.
"""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skipstone as ss
from skipstone.bindings.html import document
from skipstone.bindings.views.map import Map
from tests.support.browser import CHROMIUM, DRIVER, browser
from tests.support.views import plan_over

pytestmark = [
    pytest.mark.skipif(
        not (CHROMIUM and DRIVER), reason="Chromium or chromedriver is missing: make browser"
    ),
    pytest.mark.xdist_group("browser"),
]
SCHEMA = pa.schema([("x", pa.int64()), ("day", pa.timestamp("us", "UTC")), ("s", pa.string())])


@pytest.fixture(scope="module")
def page():
    with browser() as opened:
        yield opened


@pytest.fixture(autouse=True)
def no_messages(request):
    """Fail if a page wrote to the console."""
    yield
    if "page" in request.fixturenames:
        assert request.getfixturevalue("page").logged() == []


def plan_of(n):
    """Return a plan of n containers: x in order, day spread, some without a maximum or bounds."""
    low = np.arange(n) * 10
    days = (low * 7919 % (10 * n)) * 86_400_000_000
    nothing = np.arange(n) % 50 == 7
    stats = ss.Statistics.from_dict(
        {
            "x": {
                "min": pa.array(low, mask=nothing),
                "max": pa.array(low + 25, mask=nothing | (np.arange(n) % 50 == 9)),
                "null_count": [0] * n,
            },
            "day": {
                "min": pa.array(days).cast(SCHEMA.field("day").type),
                "max": pa.array(days + 10**12).cast(SCHEMA.field("day").type),
                "null_count": [0] * n,
            },
            "s": {"min": [f"k{k % 97:02}" for k in range(n)], "max": ["k97"] * n},
        },
        SCHEMA,
        row_count=[100] * n,
    )
    return plan_over(stats, f"x >= {2 * n} AND x < {3 * n} AND day < TIMESTAMP '2100-01-01'")


def opened(page, tmp_path, made):
    """Open a map's page, and return the place of its canvas: left, top, width and height."""
    path = tmp_path / "map.html"
    made.save(path)
    page.dark(False)
    page.open(path)
    return page.run(
        "const b = document.getElementById('ranges').getBoundingClientRect();"
        "return [b.left, b.top, b.width, b.height]"
    )


def shown(page):
    """Return how many containers are drawn, all and in the window, and the window."""
    drawn, visible, window = page.run(
        "const d = document.getElementById('ranges').dataset; return [d.drawn, d.visible, d.window]"
    )
    return int(drawn), int(visible), [float(v) for v in window.split()]


def tip(page):
    return page.run(
        "const t = document.getElementById('tip'); return t.hidden ? null : t.innerText"
    )


def bar_at(page, which):
    """Return the middle of a bar in the window, and its number."""
    return page.run(
        "document.getElementById('ranges').scrollIntoView({block: 'end'});"
        "const c = document.getElementById('ranges').getBoundingClientRect();"
        f"const bar = skipstoneMap.ranges.laid.find({which});"
        "return [c.left + (bar.x1 + bar.x2) / 2, c.top + bar.y + bar.h / 2, bar.i]"
    )


@pytest.mark.parametrize("n", [100, 20_000])
def test_hover(page, tmp_path, n):
    made = Map(plan_of(n))
    opened(page, tmp_path, made)
    column = made.picture["columns"][0]
    marks, groups = column["marks"], made.picture["groups"]
    for decision, reason in (
        ("filter", "read, rows are filtered"),
        ("pruned", f"pruned by x < {3 * n}"),
    ):
        wanted = [
            k for k, g in enumerate(groups)
            if g["decision"] == decision and (decision != "pruned" or g["text"] == f"x < {3 * n}")
        ]  # fmt: skip
        x, y, i = bar_at(
            page,
            "b => b.view === 'marks'"
            f" && skipstoneMap.data.columns[0].marks.group[b.i] === {wanted[0]}",
        )
        page.move(x, y)
        lines = tip(page).split("\n")
        # Another bar of the same pixel may be the one that is told.
        assert lines[-1] in [reason, f"pruned by x >= {2 * n}", "read, every row matches"]
        if n == 100:
            assert lines == [
                f"part-{marks['first'][i]:07}.parquet", f"x {marks['from'][i]} to {marks['to'][i]}",
                reason,
            ]  # fmt: skip
        else:
            # Bars are thin: one of the same pixel may be told, of one container or of many.
            assert lines[0].endswith(" files") or lines[0].startswith("part-")
            told = page.run(f"return skipstoneMap.ranges.tip({{view: 'marks', i: {i}}})")
            assert told["title"].endswith(" files") == (marks["count"][i] > 1)
            assert told["group"] == wanted[0]
    page.move(3, 3)
    assert tip(page) is None


def test_hover_over_a_lane(page, tmp_path):
    opened(page, tmp_path, Map(plan_of(100)))
    x, y, _ = bar_at(page, "b => b.view === 'margins'")
    page.move(x, y)
    assert tip(page).split("\n")[:2] == ["part-0000007.parquet", "x: no bounds: may hold any value"]


def test_zoom_by_wheel_drag_and_reset(page, tmp_path):
    left, top, width, _ = opened(page, tmp_path, Map(plan_of(1000)))
    drawn, visible, whole = shown(page)
    assert (drawn, visible) == (980, 980)
    page.wheel(left + width / 2, top + 150, -100)
    _, visible, (a, b) = shown(page)
    assert whole[0] < a < b < whole[1]
    assert b - a == pytest.approx(0.8 * (whole[1] - whole[0]))
    assert visible < 980
    # What the wheel points at stays where it is.
    page.run("document.getElementById('reset').click()")
    assert shown(page) == (980, 980, whole)
    page.drag(left + 84, top + 150, left + 84 + (width - 98) / 4)
    _, visible, (a, b) = shown(page)
    assert a == whole[0]
    assert b == pytest.approx(whole[0] + (whole[1] - whole[0]) / 4, rel=0.01)
    # The containers of the first quarter, and those without a maximum before it.
    assert visible == pytest.approx(980 / 4, abs=8)
    page.wheel(left + width / 2, top + 150, 100_000)
    page.run("document.getElementById('ranges').dispatchEvent(new MouseEvent('dblclick'))")
    assert shown(page) == (980, 980, whole)
    assert page.run("return document.getElementById('reset').hidden")


def test_filter_by_verdict_and_by_conjunct(page, tmp_path):
    made = Map(plan_of(1000))
    opened(page, tmp_path, made)
    total = shown(page)[0]
    legend = "[...document.querySelectorAll('#legend button')]"
    texts = page.run(f"return {legend}.map(b => b.innerText)")
    counts = dict.fromkeys(["pruned", "filter", "whole"], 0)
    for group in made.picture["groups"]:
        counts[group["decision"]] += group["count"]
    assert [int(t.split("\n")[1].split(" ")[0].replace(",", "")) for t in texts] == [
        *counts.values()
    ]
    on_axis = np.zeros(len(made.picture["groups"]), int)
    marks = made.picture["columns"][0]["marks"]
    np.add.at(on_axis, marks["group"], marks["count"])
    pruned = sum(
        n for n, g in zip(on_axis, made.picture["groups"], strict=True) if g["decision"] == "pruned"
    )
    page.run(f"{legend}[0].click()")
    assert shown(page)[0] == total - pruned
    assert page.run(f"return {legend}.map(b => b.getAttribute('aria-pressed'))") == [
        "false",
        "true",
        "true",
    ]
    page.run(f"{legend}[0].click()")
    assert shown(page)[0] == total
    page.run("document.querySelectorAll('#colours button')[1].click()")
    names = page.run(f"return {legend}.map(b => b.querySelector('.name').textContent)")
    assert names == [g["text"] for g in made.picture["groups"]]
    page.run(f"{legend}[0].click()")
    assert shown(page)[0] == total - on_axis[0]


def test_keys(page, tmp_path):
    opened(page, tmp_path, Map(plan_of(100)))
    page.run("document.getElementById('ranges').focus()")
    whole = shown(page)[2]
    page.press("+")
    a, b = shown(page)[2]
    assert b - a == pytest.approx(0.6 * (whole[1] - whole[0]))
    page.press("right")
    assert shown(page)[2][0] > a
    page.press("0")
    assert shown(page)[2] == whole
    page.press("down")
    first = tip(page)
    page.press("down")
    assert tip(page).startswith("part-") and tip(page) != first
    page.press("up")
    assert tip(page) == first
    page.press("escape")
    assert tip(page) is None


def test_columns_strip_and_rectangles(page, tmp_path):
    made = Map(plan_of(100), ["day", "x", "s"])
    opened(page, tmp_path, made)
    page.run("document.querySelectorAll('#columns button')[2].click()")
    assert (
        page.run("return document.getElementById('ranges-title').textContent")
        == "Ranges of s (STRING)"
    )
    for view, title in (("strip", "file 0 of the table"), ("boxes", "part-")):
        page.run(f"document.getElementById('{view}').scrollIntoView()")
        x, y = page.run(
            f"const c = document.getElementById('{view}').getBoundingClientRect();"
            f"const b = skipstoneMap.{view}.laid[0]; return [c.left + b.x1 + 1, c.top + b.y + 2]"
        )
        page.move(x, y)
        assert tip(page).startswith(title)


def test_the_strip_shows_few_containers_that_are_read(page, tmp_path):
    """A cell stands for 400 files, of which one may be read: a 22nd of a pixel."""
    opened(page, tmp_path, Map(plan_of(200_000)))
    unseen, cells = page.run(
        "const d = skipstoneMap.data, s = d.strip, rows = s.rows.length;"
        "const canvas = document.getElementById('strip'), wide = canvas.width;"
        "const pixels = canvas.getContext('2d').getImageData(0, 0, wide, canvas.height).data;"
        "const kept = [...d.groups.keys()].filter((g) => d.groups[g].decision !== 'pruned');"
        "const read = [[0xd9, 0x77, 0x06].join(), [0x15, 0x80, 0x3d].join()];"
        "const found = skipstoneMap.strip.laid.filter("
        "  (b) => b.row === rows && kept.some((g) => s.whole[g][b.k] > 0));"
        "const from = (x, y) => 4 * (y * wide + x);"
        "const colour = (x, y) => [...pixels.slice(from(x, y), from(x, y) + 3)].join();"
        "const seen = (b) => [...Array(b.h).keys()].some("
        "  (k) => read.includes(colour(Math.floor((b.x1 + b.x2) / 2), b.y + k)));"
        "return [found.filter((b) => !seen(b)).length, found.length]"
    )
    assert cells > 20 and unseen == 0


def test_buttons_of_columns_stand_at_the_edge(page, tmp_path):
    opened(page, tmp_path, Map(plan_over(plan_of(100).table.statistics, None), ["x", "day"]))
    left = "document.querySelector('{} button').getBoundingClientRect().left"
    assert page.run(f"return {left.format('#columns')} - {left.format('#legend')}") == 0


def test_dark_and_light(page, tmp_path):
    colours = {}
    for dark in (False, True):
        opened(page, tmp_path, Map(plan_of(100)))
        page.dark(dark)
        # Pages learn of it at their next frame.
        page.run("return new Promise(f => requestAnimationFrame(() => requestAnimationFrame(f)))")
        colours[dark] = page.run(
            "const c = document.getElementById('ranges').getContext('2d');"
            "const b = skipstoneMap.ranges.laid[0];"
            "return [getComputedStyle(document.body).backgroundColor,"
            " [...c.getImageData(Math.round(b.x1) + 1, Math.round(b.y + b.h / 2), 1, 1).data]]"
        )
    assert colours[False][0] == "rgb(255, 255, 255)"
    assert colours[True][0] == "rgb(13, 17, 23)"
    assert colours[False][1][:3] == [0xC3, 0xC9, 0xD0]
    assert colours[True][1][:3] == [0x4B, 0x53, 0x5D]


AXES = {
    "numbers": (pa.float64(), [0.0, 1e-7, 5e17], [1.5, 2.5, 6e17]),
    "booleans": (pa.bool_(), [False, True, None], [True, True, None]),
    "decades": (pa.timestamp("us", "UTC"), [0, 10**15, 2 * 10**15], [10**14, 10**15, 2 * 10**15]),
    "microseconds": (pa.timestamp("us"), [1, 2, 3], [2, 3, 4]),
    "beyond dates": (pa.timestamp("us"), [-(2**62), 0, 0], [0, 2**62, 1]),
    "one day": (pa.date32(), [5, 5, 5], [5, 5, 5]),
    "clock": (pa.time64("us"), [0, 10**9, None], [10**8, 86_399_999_999, None]),
    "large": (pa.int64(), [2**60, 2**60 + 5, None], [2**60 + 3, 2**60 + 9, None]),
    "only null": (pa.int64(), [None] * 3, [None] * 3),
    "nothing": (pa.int64(), [], []),
}


@pytest.mark.parametrize(("kind", "low", "high"), AXES.values(), ids=AXES)
def test_axes_of_every_kind(page, tmp_path, kind, low, high):
    integers = {pa.bool_(): kind, pa.float64(): kind, pa.date32(): pa.int32()}
    bounds = {
        name: pa.array(values, integers.get(kind, pa.int64())).cast(kind)
        for name, values in (("min", low), ("max", high))
    }
    schema = pa.schema([("v", kind), ("y", pa.int64())])
    y = {"min": [*range(len(low))], "max": [9] * len(low)}
    stats = ss.Statistics.from_dict({"v": bounds, "y": y}, schema)
    opened(page, tmp_path, Map(plan_over(stats, "y > 2"), ["v", "y"]))
    a, b = shown(page)[2]
    texts = page.run(
        "const c = skipstoneMap.data.columns[0];"
        "return ticksOf(c.axis, c.axis.low, c.axis.high, 8).map(t => t[1])"
    )
    assert len(texts) == len(set(texts)) <= 20
    assert texts or len(low) == 0 or low == [None] * 3
    for _ in range(4):  # far in and out again
        for key in ("+", "+", "+", "right"):
            page.run("document.getElementById('ranges').focus()")
            page.press(key)
    page.press("0")
    assert shown(page)[2] == [a, b]


# Rules of JupyterLab 4 for the HTML of a cell.
JUPYTER = """
.jp-OutputArea-output pre { word-break: break-all; }
:not(.jp-RenderedMarkdown).jp-RenderedHTMLCommon td,
:not(.jp-RenderedMarkdown).jp-RenderedHTMLCommon th,
:not(.jp-RenderedMarkdown).jp-RenderedHTMLCommon tr { text-align: right; }
.jp-RenderedHTMLCommon td, .jp-RenderedHTMLCommon th { white-space: normal; }
.jp-RenderedHTMLCommon table { color: black; }
.jp-RenderedHTMLCommon tbody tr:nth-child(odd) { background: #fff; }
.jp-RenderedHTMLCommon tbody tr:nth-child(even) { background: #f5f5f5; }
.jp-OutputArea-output pre { background-color: #fff; }
"""


@pytest.mark.parametrize("light", ["true", "false"])
def test_reprs_among_the_rules_of_jupyter(page, tmp_path, light):
    names = ["x", *("a_rather_long_name_of_a_column_" * 4 + str(k) for k in range(3))]
    rows = pa.table({name: [f"{k:060}" for k in range(100)] for name in names})
    pq.write_table(rows, tmp_path / "t.parquet", row_group_size=10)
    plan = ss.scan_parquet(str(tmp_path / "t.parquet")).plan("x > '5' AND " + f"{names[1]} < '7'")
    shown = [plan, plan.table, plan.statistics, plan.predicate]
    cells = "".join(
        f'<div class="jp-RenderedHTMLCommon jp-OutputArea-output">{o._repr_html_()}</div>'
        for o in shown
    )
    page.dark(light == "true")  # a system that is not as the notebook
    (tmp_path / "cells.html").write_text(
        f'<!doctype html><meta charset="utf-8"><style>{JUPYTER}</style>'
        f'<body data-jp-theme-light="{light}" style="width: 700px">{cells}'
    )
    page.open(tmp_path / "cells.html")
    styles = (
        "return [...document.querySelectorAll(arguments[0])]"
        ".map(e => getComputedStyle(e)[arguments[1]])"
    )
    assert set(page.run(styles, "td:not(.number), th:not(.number)", "textAlign")) == {"left"}
    assert set(page.run(styles, "td.number, th.number", "textAlign")) == {"right"}
    assert set(page.run(styles, "pre", "wordBreak")) == {"normal"}
    # The notebook's own background, in stripes or not, would not go with our colours.
    assert set(page.run(styles, ".skipstone, tr, pre", "backgroundColor")) == {"rgba(0, 0, 0, 0)"}
    text = "rgb(31, 35, 40)" if light == "true" else "rgb(230, 237, 243)"
    assert set(page.run(styles, ".skipstone, td, pre", "color")) == {text}
    # A wide table scrolls inside its own box.
    beyond = "[...document.querySelectorAll('.skipstone')].map(e => e.scrollWidth - e.clientWidth)"
    assert page.run(f"return {beyond}") == [0] * len(shown)


def test_reprs_in_a_notebook(page, tmp_path):
    pq.write_table(
        pa.table({"x": range(100), "<i>": ["<b>"] * 100}), tmp_path / "t.parquet", row_group_size=10
    )
    table = ss.scan_parquet(str(tmp_path / "t.parquet"))
    plan = table.plan("x >= 15 AND `<i>` <> '<u>'")
    shown = [plan, table, plan.statistics, plan.predicate, Map(plan)]
    cells = "".join(f'<div class="cell">{o._repr_html_()}</div>' for o in shown)
    (tmp_path / "cells.html").write_text(document("cells", cells))
    page.open(tmp_path / "cells.html")
    assert page.run("return document.querySelectorAll('.cell i, .cell b, .cell u').length") == 0
    texts = page.run("return [...document.querySelectorAll('.cell')].map(c => c.innerText)")
    assert "row groups\t10\t9\t90.0" in texts[0]
    assert "<i>\tSTRING" in texts[1]
    assert all(len(t) > 20 for t in texts[:4])
    assert (
        page.run("return document.querySelector('iframe').title") == "9 of 10 row groups are read"
    )
