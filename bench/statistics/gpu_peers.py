"""Other libraries that test ranges of columns on a GPU: CuPy, PyTorch and cuDF."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bench.report.measure import Run


@dataclass(frozen=True)
class Peer:
    """Another library that can test ranges of columns on the device.

    Attributes:
        name: The printed name.
        module: The module that must be installed.
        prepare: Takes the bounds of each column, as device arrays, and a range; returns a run that
            gives a mask on the device.
    """

    name: str
    module: str
    prepare: Callable[[Sequence[tuple[Any, Any]], int, int], Run]

    @property
    def missing(self) -> str | None:
        """Return why it is absent, or None."""
        return None if importlib.util.find_spec(self.module) else "it is not installed"


def _expression(columns: Sequence[tuple[Any, Any]], first: int, stop: int) -> Any:
    found = None
    for low, high in columns:
        test = (high >= first) & (low < stop)
        found = test if found is None else found & test
    return found


def _fused(columns: Sequence[tuple[Any, Any]], first: int, stop: int) -> Run:
    import cupy

    text = " && ".join(f"h{i} >= first && l{i} < stop" for i in range(len(columns)))
    arguments = ", ".join(f"int64 l{i}, int64 h{i}" for i in range(len(columns)))
    kernel = cupy.ElementwiseKernel(
        f"{arguments}, int64 first, int64 stop",
        "bool out",
        f"out = {text}",
        f"ranges{len(columns)}",
    )
    flat = [a for pair in columns for a in pair]
    return lambda: kernel(*flat, first, stop)


def _torch(columns: Sequence[tuple[Any, Any]], first: int, stop: int) -> Run:
    import torch

    tensors = [(torch.from_dlpack(low), torch.from_dlpack(high)) for low, high in columns]
    return lambda: _expression(tensors, first, stop)


def _cudf(columns: Sequence[tuple[Any, Any]], first: int, stop: int) -> Run:
    import cudf

    frame = cudf.DataFrame(
        {
            f"{side}{i}": a
            for i, pair in enumerate(columns)
            for side, a in zip("lh", pair, strict=True)
        }
    )
    text = " and ".join(f"h{i} >= {first} and l{i} < {stop}" for i in range(len(columns)))
    return lambda: frame.eval(text)


PEERS: Final = (
    Peer("CuPy, an operation at a time", "cupy", lambda *args: lambda: _expression(*args)),
    Peer("CuPy, one ElementwiseKernel", "cupy", _fused),
    Peer("PyTorch", "torch", _torch),
    Peer("cuDF", "cudf", _cudf),
)


def as_array(found: Any) -> Any:
    """Return a peer's mask as an array on the device."""
    if hasattr(found, "values") and not callable(found.values):  # from cuDF
        return found.values
    if type(found).__module__.startswith("torch"):
        import cupy

        return cupy.from_dlpack(found)
    return found
