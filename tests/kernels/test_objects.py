"""Loops that are kept as object files, and called without Numba."""

import ctypes
import hashlib
import os
import subprocess
import sys
import types

import numpy as np
import pytest

from skipstone.kernels.decode import span_loops
from skipstone.kernels.run import compile_cache, loops, native, objects
from skipstone.kernels.run.loops import Loop
from skipstone.kernels.run.native import ArrayType, Native, entry_of

if not objects.are_possible():
    pytest.skip("object files are kept on 64-bit Linux only", allow_module_level=True)

SOURCE = '''
"""Loops for a test."""

import math

import numpy as np


def summed(data, table, factor, out):
    total = np.int64(0)
    for i in range(table.shape[0]):
        for j in range(table.shape[1]):
            total += table[i, j] * factor
    for i in range(len(data)):
        total += np.int64(data[i])
        out[i] = total
    return total


def sines(out):
    total = 0.0
    for i in range(len(out)):
        total += math.sin(np.float64(out[i]))
    return np.int64(total * 1000)


def divided(out):
    return out[0] // out[1]
'''
SUMMED = "i8(readonly, matrix, i8, array)"


@pytest.fixture
def loop_of(tmp_path, monkeypatch):
    """Return a function that makes a loop of `SOURCE`, with kernels kept in a new directory."""
    monkeypatch.setenv("SKIPSTONE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.syspath_prepend(str(tmp_path))
    name = f"loops_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(SOURCE)
    module = __import__(name)
    monkeypatch.setattr(compile_cache, "_kernels", {})
    monkeypatch.setattr(loops, "_not_on_disk", set())
    return lambda function, signature: Loop(module, function, signature)


def in_a_new_process(monkeypatch):
    """Forget what this process has compiled."""
    monkeypatch.setattr(compile_cache, "_kernels", {})
    monkeypatch.setattr(loops, "_not_on_disk", set())


def files(tmp_path):
    return list((tmp_path / "cache").rglob("*.o"))


def arguments():
    data = np.arange(10, dtype=np.uint8)
    return data, np.arange(12).reshape(3, 4), 2, np.zeros(10, np.int64)


def check(summed):
    data, table, factor, out = arguments()
    data.flags.writeable = False
    assert summed(data, table, factor, out) == 66 * 2 + 45
    assert out.tolist() == (66 * 2 + np.cumsum(np.arange(10))).tolist()
    assert summed(data[:0], table[:0], factor, out[:0]) == 0
    assert summed(data[3:5], table[1:2], -1, out[2:]) == -22 + 7


def test_a_loop_is_kept_and_loaded(loop_of, tmp_path, monkeypatch):
    loop = loop_of("summed", SUMMED)
    assert loops.load(loop) is None
    made = loops.compiled(loop)
    assert isinstance(made, Native) and len(files(tmp_path)) == 1
    check(made)
    data, table, _, out = arguments()
    for factor in (np.int64(2), np.uint8(2), np.int16(2)):  # numbers of NumPy's count as Python's
        assert made(data, table, factor, out) == 66 * 2 + 45
    in_a_new_process(monkeypatch)
    monkeypatch.setattr(objects, "keep", lambda *_: pytest.fail("it was compiled again"))
    loaded = loops.load(loop)
    assert isinstance(loaded, Native) and loaded is not made
    check(loaded)


@pytest.mark.parametrize("damage", ["cut", "changed", "longer", "short", "no object file"])
def test_a_damaged_file_is_made_again(damage, loop_of, tmp_path, monkeypatch):
    loop = loop_of("summed", SUMMED)
    loops.compiled(loop)
    (path,) = files(tmp_path)
    whole = path.read_bytes()
    middle = len(whole) // 2
    path.write_bytes(
        {
            "cut": whole[:middle],
            "changed": whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :],
            "longer": whole + b"\0",
            "short": whole[:5],
            "no object file": hashlib.sha256(b"text").digest() + b"text",
        }[damage]
    )
    in_a_new_process(monkeypatch)
    check(loops.compiled(loop))
    in_a_new_process(monkeypatch)
    monkeypatch.setattr(objects, "keep", lambda *_: pytest.fail("it was compiled again"))
    check(loops.compiled(loop))


def test_what_cannot_be_kept_is_left_to_numba(loop_of, tmp_path, monkeypatch):
    """Code that calls an unknown function would end the process that loads it."""
    loop = loop_of("sines", "i8(array)")
    for _ in range(2):
        sines = loops.compiled(loop)
        assert not isinstance(sines, Native)
        assert sines(np.array([1, 2, 3])) == int(np.sin([1.0, 2.0, 3.0]).sum() * 1000)
        assert [path.stat().st_size for path in files(tmp_path)] == [0]
        in_a_new_process(monkeypatch)
        assert loops.load(loop) is None


def test_a_processor_of_another_kind_has_its_own_file(loop_of, tmp_path, monkeypatch):
    loop = loop_of("summed", SUMMED)
    loops.compiled(loop)
    features = objects._features()
    monkeypatch.setattr(objects, "_features", lambda: features + " ")
    in_a_new_process(monkeypatch)
    assert loops.load(loop) is None


def test_without_a_directory_loops_run(loop_of, tmp_path, monkeypatch):
    monkeypatch.setattr(compile_cache, "path_of", lambda text: None)
    loop = loop_of("summed", SUMMED)
    assert loops.load(loop) is None
    check(loops.compiled(loop))


def test_arguments_of_other_types_are_refused(loop_of):
    summed = loops.compiled(loop_of("summed", SUMMED))
    data, table, factor, out = arguments()
    frozen = out.copy()
    frozen.flags.writeable = False
    for wrong in (
        (data.astype(np.int8), table, factor, out),
        (data.tolist(), table, factor, out),
        (data, table.T, factor, out),
        (data, table.ravel(), factor, out),
        (data, table.astype(np.int32), factor, out),
        (data, table, factor, frozen),
        (data, table, factor, out[::-1]),
        (data, table, factor, out.astype(">i8")),
    ):
        with pytest.raises(TypeError, match="argument"):
            summed(*wrong)
    for wrong in (2.0, "2", None):
        with pytest.raises((TypeError, ctypes.ArgumentError)):
            summed(data, table, wrong, out)
    for count in (3, 5):
        with pytest.raises(TypeError, match=f"got {count}"):
            summed(*(data, table, factor, out, out)[:count])


def test_a_call_with_fixed_arguments_sees_arrays_change(loop_of):
    """Arguments are checked once; a plain function is called likewise."""
    loop = loop_of("summed", SUMMED)
    plain = getattr(loop.module, loop.name)
    for summed in (loops.compiled(loop), plain):
        data, table, factor, out = arguments()
        call = loops.with_arguments(summed, data, table, factor, out)
        first = call()
        table[0, 0] += 1
        assert call() == first + factor == summed(data, table, factor, out)
    with pytest.raises(TypeError, match="argument"):
        loops.with_arguments(loops.compiled(loop), data, table.T, factor, out)


def test_other_parameters_than_expected_are_not_called():
    array = ArrayType(np.dtype(np.int64), 1, is_written=True)
    opaque = "define i32 @f(ptr noalias %retptr, ptr %excinfo, {}) #0 {{"
    one = "ptr %a.0, ptr nocapture readonly captures(none) %a.1, i64 %a.2, i64 %a.3, ptr %a.4"
    assert entry_of(opaque.format(f"{one}, i64 %a.5.0, i64 %a.6.0"), [array])
    assert entry_of(opaque.format(f"{one}, i64 %a.5.0"), [array]) is None
    assert entry_of(opaque.format(f"{one}, i64 %a.5.0, i32 %a.6.0"), [array]) is None
    assert entry_of(opaque.format(f"{one}, i64 %a.5.0, double %a.6.0"), [array]) is None
    assert entry_of(opaque.format("i64 %a"), [None])
    assert entry_of(opaque.format("i64 %a").replace("i32", "void"), [None]) is None
    pointers = (
        'define i32 @"f.2"(i64* noalias nocapture writeonly %retptr, '
        "{ i8*, i32, i8*, i8*, i32 }** noalias nocapture readnone %excinfo, i8* %a.0, i8* %a.1, "
        "i64 %a.2, i64 %a.3, i64* nocapture %a.4, i64 %a.5.0, i64 %a.6.0) #0 {"
    )
    text = entry_of(pointers, [array])
    assert text is not None and "{ i8*, i32, i8*, i8*, i32 }** %p1" in text


def test_arrays_lie_in_memory_as_expected():
    assert native.is_as_expected()


def test_an_error_in_machine_code_is_raised(loop_of):
    """Numba's status is checked, although loops raise nothing."""
    divided = loops.compiled(loop_of("divided", "i8(array)"))
    assert divided(np.array([7, 2])) == 3


def test_a_fresh_process_needs_no_numba(tmp_path):
    env = {**os.environ, "SKIPSTONE_CACHE_DIR": str(tmp_path)}
    text = """
import sys
from skipstone.kernels.decode.footer_layout import WALK
from skipstone.kernels.run import loops
print(loops.load(WALK) is not None, loops.compiled(WALK) is not None, "numba" in sys.modules)
"""
    run = lambda: subprocess.run(
        [sys.executable, "-c", text], env=env, capture_output=True, text=True, check=True
    ).stdout.strip()
    assert run() == "False True True"
    assert run() == "True True False"


def test_all_loops_have_known_types():
    import skipstone.kernels.decode.avro
    import skipstone.kernels.decode.avro_records
    import skipstone.kernels.decode.json_texts
    import skipstone.kernels.decode.page_layout
    import skipstone.kernels.index.boxes
    import skipstone.kernels.pack.rows  # noqa: F401

    found = {
        value
        for module in list(sys.modules.values())
        if isinstance(module, types.ModuleType) and module.__name__.startswith("skipstone.")
        for value in vars(module).values()
        if isinstance(value, Loop)
    }
    assert len(found) > 8 and any(loop.module is span_loops for loop in found)
    for loop in found:
        assert len(loop.types) == loop.signature.count(",") + 1
