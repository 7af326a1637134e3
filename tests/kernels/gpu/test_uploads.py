"""Test uploads through pinned buffers without a card."""

import numpy as np
import pytest

from skipstone.kernels import settings
from skipstone.kernels.gpu import uploads


class Slow:
    """A buffer that the device reads only when it is waited for."""

    def __init__(self, target):
        self.target, self.sent = target, None
        self.memory = np.zeros(uploads.BUFFER_BYTES, np.uint8)

    def send(self, at, size):
        assert self.sent is None
        self.sent = (at, size)

    def wait(self):
        if self.sent is not None:
            at, size = self.sent
            self.target[at : at + size] = self.memory[:size]
            self.sent = None


@pytest.fixture(autouse=True)
def small_buffers(monkeypatch):
    monkeypatch.setattr(uploads, "BUFFER_BYTES", 64)


@pytest.mark.parametrize("buffers", [1, 2, 3])
@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 128, 129, 1000])
def test_every_byte_arrives(size, buffers):
    values, target = np.arange(size, dtype=np.uint16).astype(np.uint8), np.zeros(size, np.uint8)
    uploads.upload(values, [Slow(target) for _ in range(buffers)])
    assert target.tolist() == values.tolist()


def test_arrays_of_any_shape_and_type_arrive():
    values, target = np.arange(60.0).reshape(5, 12), np.zeros(480, np.uint8)
    uploads.upload(values, [Slow(target), Slow(target)])
    assert target.view("f8").tolist() == values.ravel().tolist()


def test_an_upload_that_fails_waits_for_what_it_started():
    """The buffers go back to a pool, where another upload may fill them."""
    target = np.zeros(1000, np.uint8)

    class Fails(Slow):
        def send(self, at, size):
            if at >= 192:
                raise MemoryError
            super().send(at, size)

    buffers = [Fails(target), Fails(target)]
    with pytest.raises(MemoryError):
        uploads.upload(np.ones(1000, np.uint8), buffers)
    assert [b.sent for b in buffers] == [None, None]
    assert target.sum() == 192


def test_they_pay_for_large_arrays_on_several_cpus(monkeypatch):
    for cpus, size, pays in ((8, uploads.MIN_BYTES, True), (1, uploads.MIN_BYTES, False)):
        monkeypatch.setattr(settings, "cpus", lambda cpus=cpus: cpus)
        assert uploads.pays(size) is pays
    assert not uploads.pays(uploads.MIN_BYTES - 1)
