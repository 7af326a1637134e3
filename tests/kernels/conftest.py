import pytest

from skipstone.kernels.run import compiler


@pytest.fixture(autouse=True)
def kernels_left(monkeypatch):
    """Let each test compile, whatever number of kernels this process has compiled before."""
    monkeypatch.setattr(compiler, "MAX_KERNELS", 1 << 20)
