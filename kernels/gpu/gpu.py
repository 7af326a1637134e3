"""Run launches on any `Device`."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from skipstone.ir.errors import DeviceError
from skipstone.kernels.gpu import cuda_tools
from skipstone.kernels.gpu.cuda_text import (
    THREADS,
    TYPES,
    WARPS,
    DeviceShape,
    Variant,
    source_of,
    tables,
    tile,
)
from skipstone.kernels.gpu.device import Device, DeviceArray
from skipstone.kernels.gpu.resident import Resident
from skipstone.kernels.pack.planes import Plane, Todo, Verdicts, Words, word_count
from skipstone.kernels.run.launch import Launch, group_alike

# Smallest number of containers for which "auto" uses the device, if the CPU could also answer. For
# masks of 100,000 and 300,000 containers, an H200 took 60 and 90 us, and 16 cores 42 and 280 us.
MIN_CONTAINERS: Final = 1 << 17
# Up to this number, verdicts for the host are downloaded as bits and unpacked there. On an H200, 1
# million took 140 us that way, and 180 us as bytes that the device wrote. From 10 million on, bytes
# are faster.
MAX_UNPACKED: Final = 1 << 22
# Bytes of a launch's arguments that every card and driver accepts.
MAX_ARGUMENT_BYTES: Final = 4096
# Bytes of verdicts on the device while many predicates are judged for the host.
MAX_VERDICT_BYTES: Final = 1 << 28


def fits(launch: Launch) -> bool:
    """Return True if the columns of a launch are few enough for one kernel."""
    return 8 * _pointers(launch) <= MAX_ARGUMENT_BYTES


def literals_fit(launch: Launch) -> bool:
    """Return True if its literals also fit; otherwise they are put in a table."""
    return 8 * (_pointers(launch) + len(launch.params)) <= MAX_ARGUMENT_BYTES


def _pointers(launch: Launch) -> int:
    """Return the number of arguments besides literals; it includes a table for each NumPy type."""
    return (
        len(launch.arrays)
        + len(launch.planes)
        + len(launch.sets)
        + launch.answers.count(None)
        + 3
        + len(TYPES)
    )


def ready(launch: Launch, variant: Variant) -> bool:
    """Return True if the device has a launch's kernel; otherwise compile it in the background."""
    assert launch.resident is not None
    variant = variant if literals_fit(launch) else "many"
    return launch.resident.ready(_text(launch, variant)[0])


def run(launch: Launch, resident: Resident, todo: Todo = None) -> list[Plane]:
    """Return the plane of each root.

    Args:
        launch: The inputs.
        resident: The device that holds them.
        todo: The numbers of the words of containers to judge; None means all.

    Returns:
        Words in host memory, or the constant answer; bits past the last container are 0.
    """
    if todo is not None and not literals_fit(launch):
        return [p if isinstance(p, bool) else p[todo] for p in run(launch, resident)]
    return [
        p if isinstance(p, bool) else _download_words(resident.device, p)
        for p in packed(launch, resident, todo)
    ]


def verdicts(launch: Launch, resident: Resident) -> DeviceArray:
    """Return the verdicts of a launch.

    Returns:
        uint8 array, shape (n,), device memory.
    """
    out = resident.device.empty(word_count(launch.n) * 16, "uint32")
    _write_verdicts(resident.device, packed(launch, resident), out)
    return out.view(np.uint8)[: launch.n]


def survivors(launch: Launch, resident: Resident) -> DeviceArray:
    """Return the positions of the containers that can match, ascending.

    Returns:
        int64 array, shape (k,), device memory. Their number is downloaded first, so this waits for
        the device.
    """
    device, n = resident.device, launch.n
    (match, *_) = packed(launch, resident)
    if isinstance(match, bool):
        return device.upload(np.arange(n if match else 0))
    words = match.shape[0]
    counts = count(device, match)
    starts = np.cumsum(counts) - counts
    out = device.empty(int(counts.sum()), "int64")
    if out.shape[0]:
        device.start(
            device.function(cuda_tools.positions_text()),
            _blocks(len(counts), WARPS),
            [np.int64(words), out, match, device.upload(starts)],
        )
    return out


def count(device: Device, words: DeviceArray) -> npt.NDArray[np.int64]:
    """Count the set bits in each `cuda_tools.TILE` of words of 32.

    Returns:
        int64 array, host memory.
    """
    size = words.shape[0]
    counts = device.empty(-(-size // cuda_tools.TILE), "uint32")
    device.start(
        device.function(cuda_tools.count_text()),
        _blocks(counts.shape[0], WARPS),
        [np.int64(size), counts, words],
    )
    return device.download(counts).astype(np.int64)


def many(launches: Sequence[Launch], resident: Resident) -> DeviceArray:
    """Return the verdicts of many launches over the same statistics.

    Launches that differ only in literals read them once.

    Returns:
        uint8 array, shape (q * word_count(n) * 64,), device memory: a row for each launch, padded
        to words.
    """
    device, row = resident.device, word_count(launches[0].n) * 16
    out = device.empty(len(launches) * row, "uint32")
    for positions in group_alike(launches):
        for at, planes in zip(
            positions, _many([launches[i] for i in positions], resident), strict=True
        ):
            _write_verdicts(device, planes, out[at * row : (at + 1) * row])
    return out.view(np.uint8)


def many_on_host(launches: Sequence[Launch], resident: Resident) -> Verdicts:
    """Return the verdicts of many launches in host memory, shape (q, n)."""
    n, row = launches[0].n, word_count(launches[0].n) * 64
    out = np.empty((len(launches), n), np.uint8)
    step = max(MAX_VERDICT_BYTES // max(row, 1), 1)
    for first in range(0, len(launches), step):
        part = launches[first : first + step]
        out[first : first + len(part)] = resident.device.download(many(part, resident)).reshape(
            len(part), row
        )[:, :n]
    return out


def _many(launches: Sequence[Launch], resident: Resident) -> Iterator[Sequence[DeviceArray | bool]]:
    """Yield the planes of launches that differ only in literals."""
    if len(launches) < 2 or not launches[0].params:
        for launch in launches:
            yield packed(launch, resident)
        return
    words, outs = 2 * word_count(launches[0].n), _launch_kernel(launches, resident)
    for i in range(len(launches)):
        yield [o if isinstance(o, bool) else o[i * words : (i + 1) * words] for o in outs]


def packed(launch: Launch, resident: Resident, todo: Todo = None) -> list[DeviceArray | bool]:
    """Return the words of 32 of each root, device memory, or its constant answer.

    It does not wait for the device.
    """
    if None not in launch.answers or not launch.n:
        return [answer if answer is not None else True for answer in launch.answers]
    return _launch_kernel([launch], resident, todo)


def _launch_kernel(
    launches: Sequence[Launch], resident: Resident, todo: Todo = None
) -> list[DeviceArray | bool]:
    """Start the kernel of launches and return its outputs without waiting for them.

    Args:
        launches: Launches that differ only in literals; one, if `todo` is given.
        resident: The device that holds their inputs.
        todo: The numbers of the words of 64 to judge; None means all.

    Returns:
        For each root its words of 32, those of one launch after the other, in device memory; or its
        constant answer.

    Raises:
        DeviceError: the launch has too many arrays for a kernel, or the device failed.
    """
    one, device, rows = launches[0], resident.device, len(launches)
    if not fits(one):
        raise DeviceError(
            f"the predicate reads {len(one.arrays)} arrays of bounds; a kernel takes "
            f"{MAX_ARGUMENT_BYTES} bytes of arguments; use backend='numba'"
        )
    variant: Variant = (
        "chosen" if todo is not None else "all" if rows == 1 and literals_fit(one) else "many"
    )
    words = 2 * (word_count(one.n) if todo is None else len(todo))
    which: list[Any] = (
        [np.int64(rows)]
        if variant == "many"
        else []
        if todo is None
        else [device.upload(todo), np.int64(len(todo))]
    )
    literals: list[Any] = (
        list(one.params)
        if variant != "many"
        else [device.upload(t) for t in tables([launch.params for launch in launches])]
    )
    arrays, planes, sets = resident.inputs(one)
    outs = [device.empty(rows * words, "uint32") if a is None else a for a in one.answers]
    written = [o for o in outs if not isinstance(o, bool)]
    arguments = [np.int64(one.n), *which, *written, *arrays, *planes, *literals, *sets]
    text, each = _text(one, variant)
    device.start(device.function(text), _blocks(words, each), arguments)
    return outs


def _text(launch: Launch, variant: Variant) -> tuple[str, int]:
    """Return the text of a launch's kernel, and the words that one of its blocks judges."""
    if (found := launch.device_texts.get(variant)) is None:
        found = launch.device_texts[variant] = _write_text(DeviceShape(launch.shape, variant))
    return found


@functools.lru_cache(maxsize=1024)
def _write_text(shape: DeviceShape) -> tuple[str, int]:
    """Write the text of a kernel, which takes longer than running it."""
    return source_of(shape), tile(shape) * WARPS


def _write_verdicts(device: Device, planes: Sequence[DeviceArray | bool], out: DeviceArray) -> None:
    """Write verdicts, four to a word of `out`, from the planes "can match" and "can miss".

    The second plane may be missing.
    """
    size = out.shape[0] * 4
    if not size:
        return
    match, miss = (*planes, True)[:2]
    text = cuda_tools.verdicts_text(*(p if isinstance(p, bool) else None for p in (match, miss)))
    varying = [p for p in (match, miss) if not isinstance(p, bool)]
    device.start(
        device.function(text), _blocks(size // 4, THREADS), [np.int64(size), out, *varying]
    )


def _download_words(device: Device, words: DeviceArray) -> Words:
    found: Words = device.download(words).view(np.uint64)
    return found


def _blocks(work: int, each: int) -> int:
    """Return the number of blocks for some work, if a block does `each` of it."""
    return -(-work // each)
