"""`gpu`: statistics on a device, compared with its copy bandwidth and with other libraries.

Every answer is compared with the CPU's first. The report also shows from which size on the device
is faster.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa

import skipstone as ss
from bench.report.measure import Run, Timing, clock, interleave
from bench.report.report import OWN, Options, Report, Requirement, equal
from bench.report.show import figure
from bench.statistics.gpu_peers import PEERS, Peer, as_array
from bench.statistics.kernels import BASE, SHAPES, STEP, statistics, within
from skipstone.ir.lower import Program
from skipstone.ir.types import INT64
from skipstone.kernels.gpu import cupy_gpu
from skipstone.kernels.gpu import gpu as backend
from skipstone.kernels.gpu.device import Device
from skipstone.kernels.gpu.resident import Resident
from skipstone.kernels.pack.planes import unpack
from skipstone.kernels.run.run import run

COPY: Final = "device copy"
SIZES: Final = (1_000_000, 10_000_000, 100_000_000)
WIDTHS: Final = (1, 2, 4)  # columns of 16 bytes
SHARE: Final = 0.8  # required share of the copy bandwidth, at the largest size
CHECKED: Final = 1_000_000  # containers over which every shape is compared
BURST: Final = 20  # launches in a row, before a wait for the last
SMALL: Final = tuple(10**k for k in range(2, 8))  # sizes among which the break-even lies


def gpu(options: Options) -> Report:
    """Statistics on a GPU: 16 to 64 bytes a container, relative to its copy bandwidth."""
    try:
        device = cupy_gpu.device()
    except ss.SkipstoneError as e:
        report = Report("statistics on a GPU")
        report.leave_out("the GPU", str(e))
        report.notes.append("Nothing was measured.")
        return report
    return measured(device, _copying, PEERS, SIZES, options)


def measured(
    device: Device,
    copying: Callable[[Device, int], Run],
    peers: Sequence[Peer],
    sizes: Sequence[int],
    options: Options,
) -> Report:
    """Run the workload on a device.

    Args:
        device: The device.
        copying: Makes a run that copies a given number of bytes within the device.
        peers: The other libraries.
        sizes: The numbers of containers.
        options: As for every workload.
    """
    report = Report(
        f"statistics on {device.name}; random 8-byte bounds, packed results that stay on the device"
    )
    report.notes.append(
        "Answers on the device equal the CPU's in "
        f"{checked(device, min(CHECKED, max(sizes)))} calls, compared before anything was timed."
    )
    report.notes.append(
        "of copy: bytes that a kernel reads and writes a second, over those of a copy within the "
        "device in the same rounds."
    )
    for peer in peers:
        if peer.missing:
            report.leave_out(peer.name, peer.missing)
    there = [peer for peer in peers if not peer.missing]
    for n in sizes:
        for columns in WIDTHS:
            try:
                _at(n, columns, device, copying, there, options, report)
            except (ss.DeviceError, MemoryError) as e:
                report.leave_out(OWN, str(e), f"{n:,} x {columns * 16} bytes")
    _break_even(device, [n for n in SMALL if n <= max(sizes)], options, report)
    return report


def checked(device: Device, n: int) -> int:
    """Compare every shape's answers on the device with NumPy's; return the number of calls."""
    host = statistics(n)
    flat, indexed = host.to_device(device), host.index().to_device(device)
    predicates = [ss.PruningPredicate(shape.where, host.schema) for shape in SHAPES]
    for shape, p in zip(SHAPES, predicates, strict=True):
        expected = p.evaluate(host, "numpy")
        equal(shape.name, p.evaluate(flat, "cupy"), expected)
        equal(f"{shape.name}, index", p.evaluate(indexed, "cupy"), expected)
        equal(f"{shape.name}, survivors", p.survivors(flat, "cupy"), np.flatnonzero(expected))
        equal(
            f"{shape.name}, kept there", device.download(p.evaluate(flat, out="device")), expected
        )
        equal(
            f"{shape.name}, survivors kept there",
            device.download(p.survivors(flat, out="device")),
            np.flatnonzero(expected),
        )
    alike = [
        ss.PruningPredicate(within("a", at, at + 50_000), host.schema)
        for at in range(0, 900_000, 100_000)
    ]
    equal(
        "many",
        ss.prune_many([*alike, *predicates], flat, "cupy"),
        ss.prune_many([*alike, *predicates], host, "numpy"),
    )
    return 5 * len(SHAPES) + 1


def ranges(n: int, columns: int) -> tuple[ss.Statistics, ss.PruningPredicate, int, int]:
    """Make random bounds of some columns, and a test of all of them for a range."""
    r = np.random.default_rng(3)
    names = [f"c{i}" for i in range(columns)]
    given = {}
    for name in names:
        low = BASE + r.integers(0, 1_000_000, n) * STEP
        given[name] = {"min": low, "max": low + r.integers(0, 2000, n) * STEP}
    schema = pa.schema([pa.field(name, pa.int64(), nullable=False) for name in names])
    first, stop = BASE + 300_000 * STEP, BASE + 700_000 * STEP
    return (
        ss.Statistics.from_dict(given, schema),
        ss.PruningPredicate(" AND ".join(within(name) for name in names), schema),
        first,
        stop,
    )


def _at(
    n: int,
    columns: int,
    device: Device,
    copying: Callable[[Device, int], Run],
    peers: Sequence[Peer],
    options: Options,
    report: Report,
) -> None:
    """Measure n containers of `columns` columns, each 16 bytes wide."""
    host, p, first, stop = ranges(n, columns)
    launch, on = host.launch(Program(p.program.can_match)), Resident(device)
    upload = clock(lambda: on.inputs(launch))
    packed, expected = backend.run(launch, on)[0], p.prune(host, "numba")
    assert not isinstance(packed, bool)
    equal(f"{n:,} x {columns}", unpack(packed, n), expected)
    moved = launch.nbytes + n // 8
    there = dict(zip(map(id, launch.arrays), on.inputs(launch)[0], strict=True))
    pairs = [
        (there[id(c.low)], there[id(c.high)])
        for c in (host.column((name,), INT64) for name in host.columns)
    ]
    runs: dict[str, Run] = {
        OWN: lambda: backend.packed(launch, on),
        COPY: copying(device, moved // 2),
    }
    for peer in peers:
        runs[peer.name] = peer.prepare(pairs, first, stop)
        equal(peer.name, device.download(as_array(runs[peer.name]())), expected)
    timings = {
        name: _per_run(t)
        for name, t in interleave(
            {name: _burst(run, device, BURST) for name, run in runs.items()}, options.rounds or 11
        ).items()
    }
    cpu = interleave({"": lambda: run(launch, "numba")}, 3)[""]
    own, limit, group = timings[OWN], timings[COPY], f"{n:,} x {columns * 16}"
    share = limit.times(own)
    for name, t in timings.items():
        report.time(
            f"{name}, {group}",
            t,
            (COPY, limit),
            own=own,
            engine=name,
            group=group,
            share=limit.times(t),
            n=n,
        )
    report.rows.append(
        {
            "containers x bytes": group,
            "us": own.median * 1e6,
            "GB/s": moved / own.median / 1e9,
            "of copy": share,
            "upload ms": upload * 1e3,
            "Numba ms": cpu.median * 1e3,
            **{peer.name: timings[peer.name].times(own) if peer in peers else "" for peer in PEERS},
        }
    )
    if n == max(SIZES):
        report.requirements.append(
            Requirement(f"{group} bytes: share of the device's copy bandwidth", share, SHARE)
        )


def _burst(run: Run, device: Device, times: int) -> Run:
    def work() -> None:
        for _ in range(times):
            run()
        device.settle()

    return work


def _per_run(t: Timing) -> Timing:
    return Timing(tuple(s / BURST for s in t.seconds))


def _copying(device: Device, size: int) -> Run:
    source, target = (device.empty(size // 8, "uint64") for _ in range(2))

    def copy() -> None:
        target[:] = source

    return copy


def _break_even(device: Device, sizes: Sequence[int], options: Options, report: Report) -> None:
    """Find the number of containers from which on the device gives host answers sooner."""
    if not sizes:
        return
    seconds: dict[str, list[float]] = {"mask": [], "survivors": [], "Numba, mask": []}
    for n in sizes:
        host, p, *_ = ranges(n, 1)
        there = host.to_device(device)
        runs: dict[str, Run] = {
            "mask": partial(p.prune, there, "cupy"),
            "survivors": partial(p.survivors, there, "cupy"),
            "Numba, mask": partial(p.prune, host, "numba"),
        }
        equal(f"{n:,}", runs["mask"](), runs["Numba, mask"]())
        for name, t in interleave(runs, options.rounds or 11).items():
            seconds[name].append(t.median)
    wins = [
        n
        for n, there, here in zip(sizes, seconds["mask"], seconds["Numba, mask"], strict=True)
        if there < here
    ]
    figures = [
        f"{n:,}: {', '.join(f'{name} {figure(s[i] * 1e6)} us' for name, s in seconds.items())}"
        for i, n in enumerate(sizes)
    ]
    report.notes.append("Answers in host memory, 16 bytes a container. " + "; ".join(figures) + ".")
    report.notes.append(
        f"The device is faster from {min(wins):,} containers on."
        if wins
        else f"Up to {max(sizes):,} containers the CPU is faster."
    )
    report.notes.append(f"A launch and its wait take {figure(_floor(device) * 1e6)} us.")


def _floor(device: Device) -> float:
    """Return the seconds of a launch over 64 containers and the wait for it."""
    host, p, *_ = ranges(64, 1)
    on = Resident(device)
    launch = host.launch(Program(p.program.can_match))
    on.inputs(launch)
    return interleave({"": _burst(lambda: backend.packed(launch, on), device, 1)}, 51)[""].median
