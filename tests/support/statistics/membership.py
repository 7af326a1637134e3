"""Containers with value lists, for kernels of membership."""

import math

import numpy as np
import pyarrow as pa

TYPES = {
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "uint8": pa.uint8(),
    "uint64": pa.uint64(),
    "float32": pa.float32(),
    "float64": pa.float64(),
    "string": pa.string(),
}


def axis_values(r, dtype, count):
    """Return dense, sparse, skewed or extreme values."""
    manner = r.choice(("dense", "sparse", "skewed", "ends"))
    if dtype.coded:
        return [
            f"{'k' * r.randint(0, 2)}{r.randrange(10 if manner == 'dense' else 10**6)}".encode()
            for _ in range(count)
        ]
    if not dtype.discrete:
        wide = {"dense": 40, "sparse": 1e6, "skewed": 1.0, "ends": 3e38}[manner]
        made = [r.uniform(-wide, wide) ** (5 if manner == "skewed" else 1) for _ in range(count)]
        made = [float(np.float32(round(v * 4) / 4 if manner == "dense" else v)) for v in made]
        return [
            r.choice((-math.inf, math.inf, 0.0, -0.0)) if r.random() < 0.02 else v for v in made
        ]
    low, high = dtype.lowest, dtype.highest
    base = {"ends": r.choice((low, high)), "sparse": 0}.get(manner, r.randint(low, high))
    reach = {"dense": count, "sparse": high, "skewed": 2 ** r.randint(1, 60), "ends": 3 * count}[
        manner
    ]
    draw = (
        (lambda: int(r.expovariate(1) ** 4 * reach / 50))
        if manner == "skewed"
        else (lambda: r.randint(-reach, reach))
    )
    return [min(max(base + draw(), low), high) for _ in range(count)]


def containers(r, dtype, members, n):
    """Return bounds near members and elsewhere; some have one value, some are unknown.

    Half of the time they are sorted.
    """
    others = axis_values(r, dtype, n)
    made = []
    for i in range(n):
        a = r.choice(members) if r.random() < 0.6 else others[i]
        b = r.choice(members) if r.random() < 0.1 else a
        if dtype.discrete:
            step = r.choice((0, 0, 1, 2, 7, len(members)))
            b = min(b + step, dtype.highest)
            a = max(a - r.choice((0, 0, 1)), dtype.lowest)
        elif not dtype.coded and math.isfinite(b):
            b = float(np.nextafter(np.float32(b), np.float32(3e38))) if r.random() < 0.5 else b
        made.append((min(a, b), max(a, b)))
    if r.random() < 0.5:
        made.sort()
    hole = r.choice((0, 0.05))
    return [(None if r.random() < hole else a, None if r.random() < hole else b) for a, b in made]
