"""The devices that tests of statistics on a device run on."""

import numpy as np
import pytest

from skipstone.ir.errors import SkipstoneError
from skipstone.kernels.gpu import cupy_gpu
from tests.support.effort import LONG


@pytest.fixture(
    params=["device", *["interpreted"] * LONG, pytest.param("card", marks=pytest.mark.gpu)]
)
def where(request, monkeypatch):
    """Devices that judge kernels while they run them, and a real one; the one that backend "cupy" finds."""
    if request.param != "card":
        found = request.getfixturevalue(request.param)
        monkeypatch.setattr(cupy_gpu, "device", lambda number=None: found)
        return found
    try:
        return cupy_gpu.device()
    except SkipstoneError as e:
        pytest.skip(f"no CUDA device: {e}")


def here(where, found):
    """A result of the device in host memory; that it lies there is checked."""
    assert not isinstance(found, np.ndarray)
    return where.download(found)


def agree_there(where, p, stats, host):
    """All calls, with results on the device."""
    verdicts = p.evaluate(host, "numpy")
    for backend in ("auto", "cupy"):
        got = [
            here(where, getattr(p, call)(stats, backend, out="device"))
            for call in ("evaluate", "prune", "survivors")
        ]
        assert [g.dtype for g in got] == [np.uint8, np.bool_, np.int64]
        assert [g.tolist() for g in got] == [
            verdicts.tolist(),
            (verdicts > 0).tolist(),
            np.flatnonzero(verdicts).tolist(),
        ], p.expr
