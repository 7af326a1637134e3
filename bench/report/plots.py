"""Draw plots from results: time over n, share of the read bandwidth, peers.

Matplotlib is imported when a plot is drawn.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench.report.bandwidth import BANDWIDTH
from bench.report.report import OWN
from bench.report.show import figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Results = Mapping[str, Any]
# Okabe and Ito's colours, safe for colour-blind readers. An engine has the same one in every plot.
COLOURS: Final = {
    OWN: "#0072B2", "Polars": "#D55E00", "DuckDB": "#E69F00", "DataFusion": "#009E73",
    "pyarrow": "#CC79A7", "NumPy": "#56B4E9", "numexpr": "#8C8C8C", "pyiceberg": "#5D3A9B",
    "deltalake": "#B8A800", BANDWIDTH: "#000000",
}  # fmt: skip
OTHER: Final = "#666666"
INK: Final = "#333333"
DASHES: Final = ("-", "--", ":", "-.")  # for the contestants of one engine


def draw(results: Results, folder: Path) -> list[Path]:
    """Write the plots for which the results have figures; return their paths."""
    import matplotlib

    style: Any = {
        "font.size": 9, "axes.spines.top": False, "axes.spines.right": False,
        "axes.edgecolor": INK, "text.color": INK, "axes.labelcolor": INK, "xtick.color": INK,
        "ytick.color": INK, "axes.titlesize": 10, "axes.titlelocation": "left",
    }  # fmt: skip
    written = []
    folder.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context(style):
        for name, make in PLOTS.items():
            drawn = make(results)
            if drawn is not None:
                path = folder / f"{name}.png"
                _write(drawn, path)
                written.append(path)
    return written


def _write(drawn: Figure, path: Path) -> None:
    """Write a PNG with a palette of 160 colours, which halves its size."""
    from PIL import Image

    whole = io.BytesIO()
    drawn.savefig(whole, dpi=120, bbox_inches="tight")
    with Image.open(whole) as image:
        image.convert("RGB").quantize(160, dither=Image.Dither.NONE).save(path, optimize=True)


def _figure(
    width: float, height: float, panels: int = 1, ratios: Sequence[float] = (1,)
) -> tuple[Figure, list[Axes]]:
    """Make a figure of panels, one above the other, without pyplot's state."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    made = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(made)
    grid = made.subplots(panels, 1, squeeze=False, gridspec_kw={"height_ratios": ratios})
    return made, [row[0] for row in grid]


def scaling(workloads: Results) -> Figure | None:
    """Plot time over the number of containers on logarithmic axes, with bands of 10 % to 90 %."""
    lines: dict[str, list[Any]] = {}
    for t in workloads.get("scaling", {}).get("timings", ()):
        lines.setdefault(t["name"].rpartition(", ")[0], []).append(t)
    if not lines:
        return None
    made, (axes,) = _figure(7.2, 4.4)
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="containers",
        ylabel="time",
        title="One range on one bigint column: median time, and 10 % to 90 % of the rounds",
    )
    axes.yaxis.set_major_formatter(lambda seconds, _: _duration(seconds))
    axes.grid(which="major", color="#E6E6E6", linewidth=0.8)
    axes.set_axisbelow(True)
    dashed = {
        name: DASHES[i % len(DASHES)]
        for group in _by_engine(lines).values()
        for i, name in enumerate(group)
    }
    for name, points in sorted(lines.items(), key=lambda line: -line[1][-1]["seconds"]["median"]):
        engine = points[0]["engine"]
        n, seconds = [p["n"] for p in points], [p["seconds"] for p in points]
        colour, bold = COLOURS.get(engine, OTHER), engine in (OWN, BANDWIDTH)
        width = 2.4 if name == OWN else 1.4
        axes.plot(
            n,
            [s["median"] for s in seconds],
            dashed[name],
            color=colour,
            linewidth=width,
            label=name,
            zorder=4 if bold else 3,
            marker="o",
            markersize=3,
        )
        axes.fill_between(
            n,
            [s["q10"] for s in seconds],
            [s["q90"] for s in seconds],
            color=colour,
            alpha=0.12,
            linewidth=0,
        )
    axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False, title="slowest first")
    return made


def _by_engine(lines: Mapping[str, Sequence[Any]]) -> dict[str, list[str]]:
    """Group contestants by engine, in the order of the results; the plain one comes first."""
    out: dict[str, list[str]] = {}
    for name, points in lines.items():
        out.setdefault(points[0]["engine"], []).append(name)
    return out


def limit(workloads: Results) -> Figure | None:
    """Plot Skipstone's share of the read bandwidth, a bar for each contestant."""
    rows = [
        (f"{workload}: {t['name']}", t["share"])
        for workload, found in workloads.items()
        for t in found["timings"]
        if t["engine"] == OWN and "share" in t and t.get("n", math.inf) >= _largest(found)
    ]
    if not rows:
        return None
    made, (axes,) = _figure(7.2, 0.9 + 0.24 * len(rows))
    names, shares = zip(*reversed(rows), strict=True)
    axes.barh(
        names,
        shares,
        color=[OTHER if "NumPy" in name else COLOURS[OWN] for name in names],
        height=0.65,
    )
    for i, share in enumerate(shares):
        axes.text(share + 0.01, i, f"{share:.0%}", va="center", fontsize=8)
    axes.axvline(1, color=INK, linewidth=1)
    axes.xaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
    axes.set(
        xlim=(0, max(1.1, *shares) + 0.05),
        title="Share of what the read bandwidth allows (grey: on NumPy, without compiled kernels)",
    )
    axes.tick_params(axis="y", length=0)
    return made


def _largest(found: Results) -> float:
    return max((t["n"] for t in found["timings"] if "n" in t), default=0)


def peers(workloads: Results) -> Figure | None:
    """Plot how many times as long as Skipstone each peer takes, a panel per workload and group."""
    panels = list(_panels(workloads))
    if not panels:
        return None
    sizes = [len(rows) + 1.5 for _, rows in panels]
    made, grid = _figure(7.2, 0.2 * sum(sizes) + 0.4, len(panels), sizes)
    most = max(t["to_own"]["q90"] for _, rows in panels for t in rows)
    least = min(t["to_own"]["q10"] for _, rows in panels for t in rows)
    for axes, (title, rows) in zip(grid, panels, strict=True):
        rows = sorted(rows, key=lambda t: -t["to_own"]["median"])
        for i, t in enumerate(rows):
            times = t["to_own"]
            axes.barh(
                i, times["median"] - 1, left=1, color=COLOURS.get(t["engine"], OTHER), height=0.65
            )
            axes.plot((times["q10"], times["q90"]), (i, i), color=INK, linewidth=0.8)
            axes.annotate(
                f"{figure(times['median'])} ×",
                (max(times["q90"], 1), i),
                xytext=(4, 0),
                textcoords="offset points",
                va="center",
                fontsize=7.5,
            )
        axes.set(
            xscale="log",
            xlim=(min(least, 0.9) * 0.9, most * 2),
            yticks=range(len(rows)),
            ylim=(-0.6, len(rows) - 0.4),
        )
        axes.set_yticklabels([_label(t) for t in rows], fontsize=7.5)
        axes.set_title(title, fontsize=8.5, fontweight="bold")
        axes.axvline(1, color=COLOURS[OWN], linewidth=1.6)
        axes.spines["left"].set_visible(False)
        axes.tick_params(axis="y", length=0)
        if axes is not grid[-1]:
            axes.tick_params(axis="x", which="both", labelbottom=False, length=0)
            axes.spines["bottom"].set_visible(False)
        else:
            axes.xaxis.set_major_formatter(lambda times, _: f"{times:g} ×")
            axes.set_xlabel(
                "times Skipstone's time (blue line); thin lines: 10 % to 90 % of rounds"
            )
    return made


def _panels(workloads: Results) -> Iterator[tuple[str, list[Any]]]:
    for name, found in workloads.items():
        groups: dict[str, list[Any]] = {}
        for t in found["timings"]:
            if t["engine"] not in (OWN, BANDWIDTH) and "to_own" in t:
                groups.setdefault(t["group"], []).append(t)
        if name == "scaling":  # it has its own plot
            continue
        yield from (
            (f"{name}{': ' + group if group else ''}", rows) for group, rows in groups.items()
        )


def _label(t: Results) -> str:
    """Return the contestant's name without its group."""
    name: str = t["name"]
    return name.removeprefix(f"{t['group']}: ").removesuffix(f": {t['group']}")


def _duration(seconds: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= scale * 0.999:
            return f"{seconds / scale:g} {unit}"
    return f"{seconds / 1e-9:g} ns"


PLOTS: Final[dict[str, Callable[[Results], Figure | None]]] = {
    "scaling": scaling,
    "limit": limit,
    "peers": peers,
}
