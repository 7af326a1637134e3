"""Compiling leaves `warnings` alone: before Python 3.14 all threads share its filters."""

import threading
import types
import warnings

import numba
import numpy as np
import pytest

from skipstone.kernels.run import compile_cache


@pytest.fixture
def blocks(monkeypatch):
    """The threads that entered `warnings.catch_warnings`, one entry for each time."""
    entered = []

    class Counted(warnings.catch_warnings):
        def __enter__(self):
            entered.append(threading.current_thread().name)
            return super().__enter__()

    monkeypatch.setattr(warnings, "catch_warnings", Counted)
    return entered


def a_kernel():
    """Return a module as the cache makes it; Numba has compiled nothing of it."""
    module = types.ModuleType("test_of_warnings")

    def kernel(values):
        return len(values) + 1

    module.SIGNATURE, module.JIT, module.kernel = "i8(i8[::1])", {"nogil": True}, kernel
    return module


def test_our_kernels(blocks):
    for _ in range(2):
        assert compile_cache.compile_now(a_kernel(), keep=False)(np.arange(3)) == 4
    assert blocks == []


def test_functions_of_the_program_are_compiled_as_before(blocks):
    """Meanwhile, in other threads, and afterwards."""
    ours, theirs = threading.Event(), threading.Event()

    def compiles():
        assert ours.wait(60)
        numba.njit("i8(i8)")(lambda x: x + 1)
        theirs.set()

    program = threading.Thread(target=compiles, name="the program's")
    program.start()
    module = a_kernel()

    original = numba.njit

    def njit(*args, **kwargs):
        if threading.current_thread() is threading.main_thread():
            ours.set()
            assert theirs.wait(60)
        return original(*args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numba, "njit", njit)
        compile_cache.compile_now(module, keep=False)
    program.join()
    assert set(blocks) == {"the program's"}
    numba.njit("i8(i8)")(lambda x: x + 2)
    assert set(blocks) == {"the program's", "MainThread"}
