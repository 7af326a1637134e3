"""The devices on which tests of device statistics run."""

import numpy as np
import pytest

from skipstone.ir.errors import SkipstoneError
from skipstone.kernels.gpu import cupy_gpu
from tests.support.effort import LONG


@pytest.fixture(
    params=["device", *["interpreted"] * LONG, pytest.param("card", marks=pytest.mark.gpu)]
)
def where(request, monkeypatch):
    """Return a device that checks kernels while it runs them, or a real GPU.

    Backend "cupy" then finds this device.
    """
    if request.param != "card":
        found = request.getfixturevalue(request.param)
        monkeypatch.setattr(cupy_gpu, "device", lambda number=None: found)
        return found
    try:
        return cupy_gpu.device()
    except SkipstoneError as e:
        pytest.skip(f"no CUDA device: {e}")


def here(where, found):
    """Check that a result lies on the device, and return it in host memory."""
    assert not isinstance(found, np.ndarray)
    return where.download(found)


def agree_there(where, p, stats, host):
    """Compare all calls, with results on the device."""
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
