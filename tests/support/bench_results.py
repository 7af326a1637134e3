"""Made-up results of the benchmark harness."""

from __future__ import annotations

from typing import Any

from bench.report.bandwidth import BANDWIDTH
from bench.report.measure import Timing
from bench.report.report import Options, Report, Requirement
from bench.report.results import as_json, machine


def steady(seconds: float, rounds: int = 20, noise: float = 0.02) -> Timing:
    """Make a timing whose rounds vary by a share of `noise`."""
    return Timing(tuple(seconds * (1 + noise * (2 * i / (rounds - 1) - 1)) for i in range(rounds)))


def made_up(
    own: float = 0.010,
    peer: float = 0.030,
    bandwidth: float = 0.008,
    noise: float = 0.02,
    *,
    reference: bool = True,
) -> dict[str, Any]:
    """Make results of one workload whose contestants have equal noise, and perhaps a reference."""
    report = Report("made up", 1000)
    limit, ours = steady(bandwidth, noise=0), steady(own, noise=noise)
    report.time(BANDWIDTH, limit, engine=BANDWIDTH)
    beside = (BANDWIDTH, limit) if reference else None
    report.time("Numba, prune", ours, beside, own=ours, share=bandwidth / own)
    report.time(
        "Polars",
        steady(peer, noise=noise),
        beside,
        own=ours,
        engine="Polars",
        share=bandwidth / peer,
    )
    report.leave_out("DuckDB", "it is not installed")
    report.requirements.append(
        Requirement("Share | of the bandwidth (Numba)", bandwidth / own, 0.5)
    )
    return {"ranges": as_json(report, Options(), machine())}
