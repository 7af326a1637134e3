"""The picture of a map as a figure of matplotlib, which is imported when one is drawn."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from skipstone.bindings.views.axis import MILLISECONDS_PER_DAY, shorten
from skipstone.bindings.views.page import title_of
from skipstone.ir.errors import BackendMissing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, FAINT, LINE, ACCENT = "#1f2328", "#59636e", "#d1d9e0", "#2563eb"
# Those of bindings/html.py.
COLOURS: Final = {
    "pruned": "#c3c9d0",
    "limit": "#8a94a0",
    "filter": "#d97706",
    "whole": "#15803d",
}
WIDTH: Final = 9.0  # inches
LEAST: Final = 0.05  # of a row of conjuncts, for containers of a cell that are read
GROUPED: Final = "{x:,.0f}"  # 12345 becomes 12,345
# Matplotlib's dates end with the years 1 and 9999.
DATES: Final = (-62135596800000.0, 253402300799000.0)
MILLISECONDS_PER_YEAR: Final = 31556952000
STYLE: Final[Any] = {
    "font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "axes.edgecolor": FAINT,
    "text.color": INK, "axes.labelcolor": INK, "xtick.color": FAINT, "ytick.color": FAINT,
    "axes.titlesize": 10, "axes.titlelocation": "left", "axes.axisbelow": True,
    "grid.color": LINE, "grid.linewidth": 0.6,
}  # fmt: skip

Scales = dict[str, Callable[[Any], Any]]  # x and y -> positions of a picture to matplotlib's


def figure_of(picture: dict[str, Any]) -> Figure:
    """Draw a picture, as `views/picture.py` makes it: depth, ranges, strip, and two columns.

    Raises:
        BackendMissing: matplotlib is not installed.
    """
    try:
        import matplotlib
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ModuleNotFoundError as e:
        raise BackendMissing(
            'drawing a figure needs the package matplotlib: pip install "skipstone[plot]", '
            "or write the map as .html"
        ) from e

    class MapFigure(Figure):
        """A figure that notebooks show without pyplot's state."""

        def _repr_png_(self) -> bytes:
            out = io.BytesIO()
            self.savefig(out, format="png", dpi=110)
            return out.getvalue()

    columns, boxes = picture["columns"], picture["boxes"]
    strip = picture["strip"] if picture["strip"]["rows"] else None
    heights = [r for c in columns for r in (0.8, _height(c))]
    heights += [] if strip is None else [0.4 * len(strip["rows"]) + 0.4]
    heights += [] if boxes is None else [3.4]
    with matplotlib.rc_context(STYLE):
        figure = MapFigure(
            figsize=(WIDTH, sum(heights) + 0.62 * len(heights) + 0.9), layout="constrained"
        )
        FigureCanvasAgg(figure)
        axes = figure.subplots(
            len(heights), 1, squeeze=False, gridspec_kw={"height_ratios": heights}
        )[:, 0].tolist()
        for column in columns:
            above, below = axes.pop(0), axes.pop(0)
            _depth(above, column, picture)
            _ranges(below, column, picture)
        if strip is not None:
            _strip(axes.pop(0), strip, picture)
        if boxes is not None:
            _boxes(axes.pop(0), boxes, picture)
        _legend(figure, picture)
    return figure


def _height(column: dict[str, Any]) -> float:
    return float(min(3.2, max(0.7, 0.14 * sum(column["marks"]["count"]))))


def _colour(picture: dict[str, Any], group: int) -> str:
    return COLOURS[picture["groups"][group]["decision"]]


def _kept_last(picture: dict[str, Any]) -> list[int]:
    """Return the groups with the kept ones last, so that they are drawn above the others."""
    decisions = [g["decision"] in ("filter", "whole") for g in picture["groups"]]
    return sorted(range(len(decisions)), key=lambda g: (decisions[g], g))


def _depth(ax: Axes, column: dict[str, Any], picture: dict[str, Any]) -> None:
    """Draw the depth as a stack of steps; containers that are read lie at the bottom."""
    from matplotlib.ticker import MaxNLocator

    depth, scale = column["depth"], _scale(column["axis"])
    start, end = (scale(np.array(depth[k], np.float64)) for k in ("start", "end"))
    low = np.zeros(len(start))
    least = 0.001 * float(np.ptp(scale(np.array([column["axis"]["low"], column["axis"]["high"]]))))
    for group in reversed(_kept_last(picture)):
        counts = np.array(depth["counts"][group] if len(start) else [], np.float64)
        right = np.maximum(end, start + least)
        _rectangles(ax, (start, right, low, low + counts), _colour(picture, group))
        low = low + counts
    ax.set_ylim(0, 1.05 * float(low.max(initial=1)))
    ax.set_title(f"{column['name']} ({column['type']}): overlap depth", fontweight="bold")
    _value_axis(ax.xaxis, ax.set_xlim, column)
    ax.tick_params(labelbottom=False, bottom=False)
    ax.yaxis.set_major_locator(MaxNLocator(3, integer=True))
    ax.yaxis.set_major_formatter(GROUPED)


def _ranges(ax: Axes, column: dict[str, Any], picture: dict[str, Any]) -> None:
    """Draw the bars, first at the top, with heights in proportion to their containers."""
    from matplotlib.collections import PolyCollection

    marks, axis = column["marks"], column["axis"]
    pad, scale = (0.5 if axis["kind"] == "rank" else 0), _scale(axis)
    total = sum(marks["count"])

    def at(name: str, move: float) -> Any:
        return scale(np.clip(np.array(marks[name], np.float64) + move, axis["low"], axis["high"]))

    if total:
        bottom = np.cumsum(marks["count"])
        top = bottom - marks["count"]
        gap = np.where(np.array(marks["count"]) * 400 / total > 4, 0.12, 0) * marks["count"]
        corners = np.stack(
            [at("low", -pad), top, at("lowest_high", pad), top,
             at("high", pad), bottom - gap, at("highest_low", -pad), bottom - gap], 1,
        ).reshape(-1, 4, 2)  # fmt: skip
        colours = [_colour(picture, g) for g in marks["group"]]
        order = np.argsort(
            [c in (COLOURS["filter"], COLOURS["whole"]) for c in colours], kind="stable"
        )
        ax.add_collection(
            PolyCollection(
                [corners[i] for i in order],
                facecolors=[colours[i] for i in order],
                edgecolors=[colours[i] for i in order],
                linewidths=0.4,
            )
        )
    for value, _ in column["literals"]:
        ax.axvline(float(scale(np.array([value]))[0]), color=ACCENT, linewidth=0.8, linestyle=":")
    ax.set_ylim(max(total, 1), 0)
    ax.set_yticks([])
    ax.set_ylabel(f"{total:,} {picture['unit']}")
    _value_axis(ax.xaxis, ax.set_xlim, column)
    margins = column["margins"]
    counts = list(zip(margins["margin"], margins["count"], strict=True))
    notes = [
        f"{sum(n for k, n in counts if k == margin):,} with {name}"
        for margin, name in enumerate(margins["names"])
    ]
    notes += [f"{column['open']:,} with an open end"] if column["open"] else []
    about = " (in order, not to scale)" if axis["kind"] == "rank" else ""
    about = " (UTC)" if axis["zoned"] else about
    ax.set_xlabel("\n".join([f"{column['name']}{about}", *notes]), color=FAINT)


def _rectangles(ax: Axes, sides: tuple[Any, Any, Any, Any], colour: str) -> None:
    """Fill rectangles, given by arrays of their left, right, lower and upper sides."""
    from matplotlib.collections import PolyCollection

    x1, x2, y1, y2 = sides
    corners = np.stack([x1, y1, x2, y1, x2, y2, x1, y2], 1).reshape(-1, 4, 2)
    there = corners[y2 > y1]
    ax.add_collection(
        PolyCollection([*there], facecolors=[colour], linewidths=0, antialiased=False)
    )


def _strip(ax: Axes, strip: dict[str, Any], picture: dict[str, Any]) -> None:
    """Draw what each conjunct says of the containers, in table order."""
    start = np.array(strip["start"])
    size = np.diff(start, append=picture["n"])
    rows = [
        [(row["never"], COLOURS["pruned"]),
         (size - row["never"] - row["always"], COLOURS["filter"]),
         (row["always"], COLOURS["whole"])]
        for row in strip["rows"]
    ]  # fmt: skip
    rows.append([(strip["whole"][g], _colour(picture, g)) for g in _kept_last(picture)])
    texts = [shorten(row["text"], 110) for row in strip["rows"]]
    for y, (text, parts) in enumerate(zip([*texts, "together"], rows, strict=True)):
        low = np.full(len(start), y + 0.45)
        for part, (_, colour) in zip(_heights(parts, size), parts, strict=True):
            _rectangles(ax, (start, start + size, low - part, low), colour)
            low = low - part
        ax.text(0, y - 0.12, text.replace("$", r"\$"), fontsize=8, va="bottom")
    ax.set_yticks([])
    ax.spines["left"].set_visible(False)
    ax.set_ylim(len(rows) - 0.4, -0.5)
    ax.set_xlim(0, max(1, picture["n"]))
    ax.set_title("What each conjunct rules out", fontweight="bold")
    ax.xaxis.set_major_formatter(GROUPED)
    ax.set_xlabel(f"{picture['unit']} in table order", color=FAINT)


def _heights(parts: Sequence[tuple[Any, str]], size: Any) -> Any:
    """Return the heights of a row's parts, of 0.5 together, shape (parts, cells).

    They are in proportion, but none that is read is too low to see.
    """
    if not parts:
        return ()
    counts = np.array([counts for counts, _ in parts], np.float64)
    heights = 0.5 * counts / size
    read = np.array([colour in (COLOURS["filter"], COLOURS["whole"]) for _, colour in parts])
    heights = np.where(read[:, None] & (counts > 0), np.maximum(heights, LEAST), heights)
    excess = np.maximum(heights.sum(0) - 0.5, 0)
    heights[heights.argmax(0), np.arange(heights.shape[1])] -= excess
    return heights


def _boxes(ax: Axes, boxes: dict[str, Any], picture: dict[str, Any]) -> None:
    """Draw two columns against each other: rectangles, or how many of them cover each cell."""
    x, y = picture["columns"][:2]
    scales = {"x": _scale(x["axis"]), "y": _scale(y["axis"])}
    if "cover" in boxes:
        _cover(ax, boxes["cover"], picture, scales)
    elif boxes["count"]:
        _containers_as_boxes(ax, boxes, picture, scales)
    ax.set_title(f"{y['name']} against {x['name']}", fontweight="bold")
    _value_axis(ax.xaxis, ax.set_xlim, x)
    _value_axis(ax.yaxis, ax.set_ylim, y, few=True)
    ax.set_xlabel(x["name"], color=FAINT)
    ax.set_ylabel(y["name"])


def _cover(ax: Axes, cover: dict[str, Any], picture: dict[str, Any], scales: Scales) -> None:
    """Shade each cell by the number of containers that cover it."""
    from matplotlib.colors import to_rgba

    x, y = picture["columns"][:2]
    counts = np.array(cover["counts"], np.float64).reshape(-1, cover["up"], cover["across"])
    left, right, bottom, top = (
        float(scales[k](np.array([c["axis"][end]]))[0])
        for k, c in (("x", x), ("y", y))
        for end in ("low", "high")
    )
    extent = (left, right, bottom, top)
    for decisions in (("pruned", "limit"), ("filter", "whole")):
        chosen = [g for g, v in enumerate(picture["groups"]) if v["decision"] in decisions]
        layer = counts[chosen].sum(0)
        if not layer.any():
            continue
        colour = _colour(picture, max(chosen, key=lambda g: float(counts[g].sum())))
        image = np.empty((*layer.shape, 4))
        image[:] = to_rgba(colour)
        image[..., 3] = np.where(layer > 0, 0.12 + 0.8 * np.sqrt(layer / layer.max()), 0)
        ax.imshow(image, origin="lower", extent=extent, aspect="auto")


def _containers_as_boxes(
    ax: Axes, boxes: dict[str, Any], picture: dict[str, Any], scales: Scales
) -> None:
    """Draw the rectangle of each container."""
    from matplotlib.collections import PolyCollection
    from matplotlib.colors import to_rgba

    x, y = picture["columns"][:2]

    def at(name: str, column: dict[str, Any], move: float) -> Any:
        axis = column["axis"]
        move = move if axis["kind"] == "rank" else 0
        values = np.array(boxes[name], np.float64) + move
        return scales[name[0]](np.clip(values, axis["low"], axis["high"]))

    x1, x2 = at("x_low", x, -0.5), at("x_high", x, 0.5)
    y1, y2 = at("y_low", y, -0.5), at("y_high", y, 0.5)
    corners = np.stack([x1, y1, x2, y1, x2, y2, x1, y2], 1).reshape(-1, 4, 2)
    for group in _kept_last(picture):
        own = [i for i, g in enumerate(boxes["group"]) if g == group]
        colour = _colour(picture, group)
        ax.add_collection(
            PolyCollection(
                [corners[i] for i in own],
                facecolors=[to_rgba(colour, 0.16)],
                edgecolors=[to_rgba(colour, 0.8)],
                linewidths=0.6,
            )
        )


def _legend(figure: Figure, picture: dict[str, Any]) -> None:
    """Write the title, the condition, and a legend with counts."""
    from matplotlib.patches import Patch

    where = picture["where"]
    title = title_of(picture) + ("" if where is None else f"\n{shorten(where, 120)}")
    # A dollar sign would start a formula.
    figure.suptitle(title.replace("$", r"\$"), x=0.01, ha="left", fontsize=11)
    counts: dict[str, int] = {}
    texts = {"pruned": "pruned", "limit": "left out by the limit",
             "filter": "read, rows are filtered", "whole": "read, every row matches"}  # fmt: skip
    for group in picture["groups"]:
        counts[group["decision"]] = counts.get(group["decision"], 0) + group["count"]
    figure.legend(
        handles=[
            Patch(color=COLOURS[decision], label=f"{texts[decision]}: {counts[decision]:,}")
            for decision in texts
            if decision in counts
        ],
        loc="outside lower left", ncols=4, frameon=False, handlelength=1, handleheight=1,
    )  # fmt: skip


def _scale(axis: dict[str, Any]) -> Callable[[Any], Any]:
    """Return the function from a picture's positions to matplotlib's."""
    if axis["kind"] == "time" and DATES[0] < axis["low"] and axis["high"] < DATES[1]:
        return lambda at: at / MILLISECONDS_PER_DAY
    if axis["kind"] == "time":
        return lambda at: 1970 + at / MILLISECONDS_PER_YEAR
    if axis["kind"] == "clock":
        return lambda at: at / 3_600_000
    return lambda at: at


def _value_axis(
    side: Any, set_limits: Callable[..., Any], column: dict[str, Any], few: bool = False
) -> None:
    """Set limits, ticks and grid of an axis of values."""
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
    from matplotlib.ticker import FixedLocator, FuncFormatter

    axis = column["axis"]
    scale = _scale(axis)
    set_limits(*(float(scale(np.array([axis[end]]))[0]) for end in ("low", "high")))
    side.grid(True)
    if axis["kind"] == "rank":
        step = -(-len(axis["at"]) // (8 if few else 14)) or 1
        side.set_major_locator(FixedLocator(axis["at"][::step]))
        side.set_ticklabels([shorten(t, 12).replace("$", r"\$") for t in axis["labels"][::step]])
    elif axis["kind"] == "time" and DATES[0] < axis["low"] and axis["high"] < DATES[1]:
        locator = AutoDateLocator(maxticks=7 if few else 10)  # type: ignore[no-untyped-call]
        side.set_major_locator(locator)
        side.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
    elif axis["kind"] == "clock":
        side.set_major_formatter(FuncFormatter(lambda h, _: f"{h:.4g} h"))
    elif axis["base"]:
        side.set_major_formatter(FuncFormatter(lambda v, _: f"{int(axis['base']) + round(v):,}"))
    elif axis["kind"] == "number":
        side.set_major_formatter(FuncFormatter(lambda v, _: f"{v:,.10g}"))
