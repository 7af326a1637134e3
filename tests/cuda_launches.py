"""Launches on a device."""

import numpy as np

from skipstone.kernels.cuda_text import WARPS, DeviceShape, source_of, tables, tile
from skipstone.kernels.planes import word_count


def judged(device, launch, todo=None):
    """The planes of a launch, one for each root, or the chosen words of each."""
    shape = DeviceShape(launch.shape, "all" if todo is None else "chosen")
    words = word_count(launch.n) if todo is None else len(todo)
    chosen = [] if todo is None else [device.upload(todo), np.int64(len(todo))]
    return _start(device, launch, shape, words, words, chosen, launch.params)


def judged_many(device, launches):
    """The planes of launches that differ in literals alone, for each of them."""
    first, rows = launches[0], len(launches)
    literals = [device.upload(table) for table in tables([one.params for one in launches])]
    words = word_count(first.n)
    found = _start(device, first, DeviceShape(first.shape, "many"), words, rows * words, [np.int64(rows)], literals)
    return [[p if isinstance(p, bool) else p.reshape(rows, -1)[row] for p in found] for row in range(rows)]


def _start(device, launch, shape, words, room, extra, literals):
    outs = [device.empty(2 * room, "uint32") for answer in launch.answers if answer is None]
    arrays = [device.upload(a) for a in launch.arrays]
    known = [device.upload(p.view(np.uint32)) for p in launch.planes]
    sets = [device.upload(s) for s in launch.sets]
    blocks = -(-2 * words // (tile(shape) * WARPS))
    device.start(device.function(source_of(shape)), blocks, [np.int64(launch.n), *extra, *outs, *arrays, *known, *literals, *sets])
    found = iter(device.download(o).view(np.uint64) for o in outs)
    return [next(found) if answer is None else answer for answer in launch.answers]
