"""`ranges`, `wide`, `narrow`: 10 million containers, two columns, compared with other engines."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import skipstone as ss
from bench.report.bandwidth import BANDWIDTH, Bandwidth
from bench.report.measure import Run, Timing, interleave
from bench.report.report import OWN, Options, Report, Requirement, equal
from bench.statistics.peers import PEERS, Peer, Ranges, Test
from skipstone.ir.lower import Program
from skipstone.kernels.run.run import run

PRUNE, PACKED = "Numba, prune", "Numba, packed bits only"


@dataclass(frozen=True)
class Values:
    """The columns of `ranges`: x ascends from `base` in `x_step`s, y from 0 in `y_step`s."""

    about: str
    dtype: npt.DTypeLike
    base: int
    x_step: int
    y_step: int

    @property
    def literals(self) -> tuple[int, int, int]:
        """The condition's lo, hi and v."""
        return (
            self.base + 300_000 * self.x_step,
            self.base + 700_000 * self.x_step,
            50_000 * self.y_step,
        )


DAY: Final = 1_700_000_000_000_000  # microseconds since 1970
MIXED: Final = Values(
    "bigint columns, x of microseconds, y of ids below 2^31", np.int64, DAY, 1_000_000, 20_000
)
WIDE: Final = Values(
    "bigint columns whose values need 8 bytes", np.int64, DAY, 1_000_000, 1_000_000
)
NARROW: Final = Values("int columns", np.int32, 0, 1, 1)


def zone_map(n: int, values: Values) -> Ranges:
    """Make random statistics of n containers: overlapping bounds and a few NULLs.

    One container in a hundred is all NULL in x, and one in a hundred in y.
    """
    r = np.random.default_rng(7)
    rows = r.integers(900, 1100, n)
    columns: dict[str, Any] = {"row_count": rows}
    for name, base, step, distinct, width in (
        ("x", values.base, values.x_step, 1_000_000, 2000.0),
        ("y", 0, values.y_step, 100_000, 500.0),
    ):
        low = base + r.integers(0, distinct, n) * step
        columns[f"{name}_min"] = low
        columns[f"{name}_max"] = low + r.exponential(width, n).astype(np.int64) * step
        columns[f"{name}_null_count"] = np.where(r.random(n) < 0.01, rows, r.integers(0, 10, n))
    lo, hi, v = values.literals
    x: tuple[Test, ...] = (
        ("x_null_count", "<>", "row_count"),
        ("x_max", ">=", lo),
        ("x_min", "<", hi),
    )
    y: tuple[Test, ...] = (
        ("y_null_count", "<>", "row_count"),
        ("y_min", "<=", v),
        ("y_max", ">=", v),
    )
    return Ranges(
        pa.table({k: c.astype(values.dtype, copy=False) for k, c in columns.items()}), (*x, *y)
    )


def statistics_of(r: Ranges) -> ss.Statistics:
    """Return the same statistics as `Statistics`, whose columns are packed at first use.

    Bounds are missing where all is NULL; the peers' tests of counts leave these containers out.
    """
    schema = pa.schema([(c, r.table[f"{c}_min"].type) for c in ("x", "y")])
    arrays = r.arrays()
    columns = {}
    for c in ("x", "y"):
        nulls = arrays[f"{c}_null_count"]
        low, high = (
            pa.array(arrays[f"{c}_{k}"], mask=nulls == arrays["row_count"]) for k in ("min", "max")
        )
        columns[c] = {"min": low, "max": high, "null_count": nulls}
    return ss.Statistics.from_dict(columns, schema, row_count=arrays["row_count"])


def ranges(options: Options) -> Report:
    """10 million containers, `x >= lo AND x < hi AND y = v` with null counts."""
    return _ranges(options, MIXED)


def wide(options: Options) -> Report:
    """`ranges` over values that all need 8 bytes and cannot be narrowed."""
    return _ranges(options, WIDE)


def narrow(options: Options) -> Report:
    """`ranges` over columns of 4 bytes, for all contestants."""
    return _ranges(options, NARROW)


class Own:
    """Skipstone's contestants: their runs, and the bytes that these read."""

    def __init__(self, given: Ranges, values: Values) -> None:
        lo, hi, v = values.literals
        self.stats = statistics_of(given)
        self.predicate = ss.PruningPredicate(
            f"x >= {lo} AND x < {hi} AND y = {v}", self.stats.schema
        )
        self.launch = self.stats.launch(Program(self.predicate.program.can_match))
        self.both = self.stats.launch(self.predicate.program)

    def answer(self) -> npt.NDArray[np.bool_]:
        """Check that all ways to compute the answer agree, and return it."""
        p, stats = self.predicate, self.stats
        kept = p.prune(stats, "numba")
        equal("Skipstone on NumPy", p.prune(stats, "numpy"), kept)
        packed = run(self.launch, "numba").planes[0]
        assert not isinstance(packed, bool)
        equal(
            PACKED, np.unpackbits(packed.view(np.uint8), count=len(kept), bitorder="little"), kept
        )
        equal("evaluate", p.evaluate(stats, "numba") > 0, kept)
        equal("evaluate on NumPy", p.evaluate(stats, "numpy"), p.evaluate(stats, "numba"))
        return kept

    def runs(self, full: bool) -> dict[str, tuple[Run, int]]:
        """Return each contestant's run, and the bytes that it must read."""
        p, stats, launch = self.predicate, self.stats, self.launch
        usual: dict[str, tuple[Run, int]] = {
            PRUNE: (lambda: p.prune(stats, "numba"), launch.nbytes),
            PACKED: (lambda: run(launch, "numba"), launch.nbytes),
            "Skipstone on NumPy, prune": (lambda: p.prune(stats, "numpy"), launch.nbytes),
        }
        more: dict[str, tuple[Run, int]] = {
            "Numba, evaluate": (lambda: p.evaluate(stats, "numba"), self.both.nbytes),
            "Skipstone on NumPy, evaluate": (lambda: p.evaluate(stats, "numpy"), self.both.nbytes),
        }
        return {**usual, **more} if full else usual


def _ranges(options: Options, values: Values) -> Report:
    """Measure Skipstone and the peers over columns of these values."""
    n = options.containers
    given = zone_map(n, values)
    own = Own(given, values)
    expected = own.answer()
    report = Report(
        f"{n:,} containers, {own.predicate.expr}, null counts; {values.about}; "
        f"{int(expected.sum()):,} kept",
        n,
    )
    present = []
    for peer in PEERS:
        if peer.missing:
            report.leave_out(peer.name, peer.missing)
        else:
            present.append(peer)
    runs = own.runs(options.full) | {
        peer.name: (_prepare(peer, given, expected), given.table.nbytes) for peer in present
    }

    bandwidth = Bandwidth(n)
    timed = {name: run for name, (run, _) in runs.items()}
    rounds = options.rounds or (40 if options.full else 15)
    timings = interleave({**bandwidth.runs, **timed}, rounds)
    limit, ours = bandwidth.best(timings), timings[PRUNE]
    report.rows.append(_row(BANDWIDTH, limit, n, bandwidth.nbytes, 1.0, ours))
    report.time(BANDWIDTH, limit, engine=BANDWIDTH)
    engines = {peer.name: peer.engine for peer in present}
    shares = {}
    for name, (_, nbytes) in runs.items():
        t = timings[name]
        share = shares[name] = limit.times(t) * nbytes / bandwidth.nbytes
        report.rows.append(_row(name, t, n, nbytes, share, ours))
        engine = engines.get(name, OWN)
        report.time(name, t, (BANDWIDTH, limit), own=ours, engine=engine, share=share)
    report.notes += [
        f"Read bandwidth {bandwidth.nbytes / limit.median / 1e9:.1f} GB/s: the fastest of "
        f"{len(bandwidth.runs)} loops over {len(bandwidth.arrays)} arrays.",
        "Ratios are medians over rounds, each within one round. Peers read columns and counts as "
        "given; Skipstone reads what it packed at ingest: bounds as "
        f"{', '.join(str(a.dtype) for a in own.launch.arrays)}, "
        f"and {len(own.launch.planes)} planes of bits.",
    ]
    report.requirements += _requirements(
        shares, {peer: timings[peer.name].times(ours) for peer in present}
    )
    return report


def _requirements(shares: dict[str, float], slower: dict[Peer, float]) -> list[Requirement]:
    """Return the requirements. Absent peers prove nothing: nan meets no bound."""
    best, times = min(
        ((peer.name, t) for peer, t in slower.items() if peer.column),
        key=lambda found: found[1],
        default=("none", math.nan),
    )
    datafusion = min(
        (t for peer, t in slower.items() if peer.package == "datafusion"), default=math.nan
    )
    return [
        Requirement(
            "Numba, prune to a bool column: share of what the bandwidth allows", shares[PRUNE], 0.8
        ),
        Requirement("Numba, packed bits: share of what the bandwidth allows", shares[PACKED], 0.8),
        Requirement(f"Numba: speed-up over the best peer that returns a column ({best})", times, 2),
        Requirement("Numba: speed-up over DataFusion", datafusion, 4),
    ]


def _prepare(peer: Peer, given: Ranges, expected: Any) -> Run:
    """Check the peer's answer, then return its run."""
    timed, read = peer.prepare(given)
    equal(peer.name, read(timed()), expected if peer.column else int(expected.sum()))
    return timed


def _row(name: str, t: Timing, n: int, nbytes: int, share: float, ours: Timing) -> dict[str, Any]:
    return {
        "": name,
        "ms": t.median * 1e3,
        "best ms": t.best * 1e3,
        "10 % to 90 %": f"{t.quantile(0.1) * 1e3:.1f} to {t.quantile(0.9) * 1e3:.1f}",
        "M containers/s": n / t.median / 1e6,
        "MB read": nbytes / 1e6,
        "GB/s": nbytes / t.median / 1e9,
        "of bandwidth": share,
        "times Numba": t.times(ours),
    }
