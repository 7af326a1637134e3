"""The HTML page of a map: its text here, its drawing in the scripts beside it."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any, Final

from skipstone.bindings.html import document, escape

SCRIPTS: Final = ("ticks.js", "canvas.js", "ranges.js", "boxes.js", "strip.js", "page.js")
HOW_TO_READ: Final = """
<details><summary>How to read this page</summary><ul>
<li>A bar reaches from the minimum to the maximum of its containers. Bars are sorted by minimum.
Their height is proportional to the number of containers, but if only a few of very many bars are
read, these are drawn higher, so that they can be seen.</li>
<li>If there are many containers, one bar represents all that have similar bounds and the same
verdict. It leans from the first of them to the last.</li>
<li>A bar that fades out at the edge has an open end: that bound is unknown or infinite.</li>
<li>A cell of the conjuncts that represents many containers is divided in proportion, but parts
that are read are drawn at least 2 pixels high.</li>
<li>The depth is the number of ranges that hold the same value. The more ranges overlap at the
values of a condition, the more must be read. Containers without bounds are not counted.</li>
<li>Wheel, drag or <kbd>+</kbd> <kbd>-</kbd> zoom, <kbd>←</kbd> <kbd>→</kbd> move,
<kbd>↑</kbd> <kbd>↓</kbd> step through the bars, <kbd>0</kbd> shows everything again.
The legend's buttons show and hide containers.</li>
</ul></details>
"""


def title_of(picture: dict[str, Any]) -> str:
    """Return the title of a picture.

    Example:
        >>> title_of({"n": 172, "kept": 13, "unit": "row groups"})
        '13 of 172 row groups are read'
    """
    n, kept, unit = picture["n"], picture["kept"], picture["unit"]
    if n == 1:
        unit = unit.removesuffix("s")
    if picture.get("where") is None and n == kept:
        return f"{n:,} {unit}"
    return f"{kept:,} of {n:,} {unit} {'is' if kept == 1 else 'are'} read"


def page_of(picture: dict[str, Any]) -> str:
    """Return the page of a picture, as `views/picture.py` makes it."""
    title = title_of(picture)
    where = picture["where"]
    # "<" is escaped, so that no text of the table's can end the element.
    data = json.dumps(picture, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    notes = "".join(f'<p class="warn">{escape(note)}</p>' for note in picture["notes"])
    shown_where = "" if where is None else f'<pre class="where">{escape(where)}</pre>'
    body = f"""<main>
<header><h1>{escape(title)}</h1>
<p class="faint path">{escape(picture["folder"])}</p>{notes}{shown_where}</header>
<div class="bar"><span class="set" id="colours" role="group" aria-label="Colour by"></span>
<span class="set" id="columns" role="group" aria-label="Column"></span></div>
<div class="bar legend" id="legend" role="group" aria-label="Show"></div>
<section id="ranges-view"><div class="head"><h2 id="ranges-title"></h2>
<button id="reset" hidden>Show everything</button></div>
<p class="faint" id="ranges-note"></p>
<canvas id="ranges" tabindex="0" role="img"></canvas></section>
<section id="strip-view"><h2>What each conjunct rules out</h2>
<p class="faint" id="strip-note"></p><canvas id="strip" tabindex="0" role="img"></canvas></section>
<section id="boxes-view"><h2 id="boxes-title"></h2>
<p class="faint" id="boxes-note"></p><canvas id="boxes" tabindex="0" role="img"></canvas></section>
{HOW_TO_READ}
<div id="tip" role="status" hidden></div>
<script type="application/json" id="picture">{data}</script></main>"""
    room = files("skipstone.bindings.views")
    return document(
        title,
        body,
        style=(room / "map.css").read_text(encoding="utf-8"),
        script="".join((room / name).read_text(encoding="utf-8") for name in SCRIPTS),
    )
