"""Test NVRTC without a device: the machine code of kernels, its log, and the cache."""

import multiprocessing
import os
import re
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pytest

import skipstone as ss
from skipstone.ir.errors import BackendMissing, DeviceError
from skipstone.ir.types import from_arrow
from skipstone.kernels.gpu import cuda_tools, nvrtc
from skipstone.kernels.gpu.cuda_text import source_of
from skipstone.kernels.run import compile_cache
from tests.support.cuda.interpreted import MISSING
from tests.support.cuda.shapes import shapes
from tests.support.effort import LONG
from tests.support.rows.strategies import array_of

needs_nvrtc = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))

# Kernels for all NumPy types, 1 to 16 leaves, runs and sets, and planes alone; each in every form.

TYPES = {
    f"{kind}{bits}": getattr(pa, f"{kind}{bits}")()
    for kind in ("int", "uint")
    for bits in (8, 16, 32, 64)
}
TYPES |= {"float32": pa.float32(), "float64": pa.float64(), "string": pa.string()}
COLUMNS = [("int64", "float64", "int32", "string", "float32", "int16")[i % 6] for i in range(16)]
WIDE = pa.schema([(f"c{i}", TYPES[name]) for i, name in enumerate(COLUMNS)])
LEAVES = [f"c{i} > '5'" if name == "string" else f"c{i} > {i}" for i, name in enumerate(COLUMNS)]
A, B, C, D, E = LEAVES[:5]
#   name: predicate, schema
CASES = {
    **{
        name: (
            "x > '5' OR x = '2'" if name == "string" else "x > 5 OR x = 2",
            pa.schema([("x", t)]),
        )
        for name, t in TYPES.items()
    },
    "1 leaf": (A, WIDE),
    "5 leaves": (f"({A} OR NOT ({B})) AND ({C} OR {D} AND c0 IS NOT NULL) OR {E}", WIDE),
    "16 leaves": (" AND ".join(LEAVES), WIDE),
    "planes": ("c0 IS NULL AND c1 IS NOT NULL OR c2 IS NULL", WIDE),
    "20 masks": (
        " OR ".join(
            f"c0 BETWEEN {10 * k} AND {10 * k + 3 + k % 4} AND c1 IS NULL" for k in range(20)
        ),
        WIDE,
    ),
    "16 runs": (f"c0 IN ({', '.join(map(str, range(0, 64, 4)))})", WIDE),
    "a set of integers": (
        f"c0 NOT IN ({', '.join(map(str, range(0, 400, 4)))}) OR "
        f"c2 IN ({', '.join(map(str, range(0, 400, 3)))})",
        WIDE,
    ),
    "a set of floats": (f"c1 IN ({', '.join(f'{i}.25' for i in range(100))})", WIDE),
}
ARCHITECTURES = ("sm_80", "sm_90", "sm_100")
# Registers of a lane. With 64 a multiprocessor holds 1,024 lanes, with 128 it holds 512. A lane has
# at least 64 bytes under way (cuda_text.LOAD_AHEAD), and some 30 KB are needed, so both suffice.
# More registers, or spills, would slow down reading.
REGISTERS = {"all": 64, "chosen": 64, "many": 128}
WIDEST = {"16 leaves": 128, "20 masks": 128}
# Bytes of stack, stores and loads. Each of 20 masks has 40 literals, and some are spilled during
# the tests before them. The compiler of CUDA 13.0 spills a number in a search; 13.5 does not.
SPILLED = {("20 masks", "many"): 128}
SPILLED_BY_13_0 = {("a set of integers", "all"): 16}


def launch_of(name):
    """Return a launch without constant planes, whose bounds need all bytes of their types."""
    text, schema = CASES[name]
    i = np.arange(96)
    nulls, rows = i % 3, 2 + i % 2
    counts = {"null_count": nulls, "row_count": rows}
    # A container without values has no bounds: they would contradict the counts, and all would be
    # unknown.
    some = lambda values: [
        None if gone else v for v, gone in zip(values, nulls == rows, strict=True)
    ]
    columns = {
        f.name: {
            side: array_of(some(bounds(from_arrow(f.type), k)), f.type)
            for k, side in enumerate(("min", "max"))
        }
        | counts
        for f in schema
    }
    return ss.Statistics.from_dict(columns, schema, row_count=i % 5).launch(
        ss.PruningPredicate(text, schema).program
    )


def bounds(dtype, shift):
    if dtype.coded:
        return [str(i % 9 + shift).encode() for i in range(96)]
    return [i * (dtype.highest // 96 if dtype.discrete else 0.25) + shift for i in range(96)]


def reads(log):
    """Return the registers, and the bytes of the stack and of spills."""
    registers = re.search(r"Used (\d+) registers", log)
    assert registers, log
    return int(registers[1]), sum(
        map(
            int,
            re.search(
                r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", log
            ).groups(),
        )
    )


@needs_nvrtc
@pytest.mark.parametrize("name", CASES)
def test_every_shape_compiles_within_registers(name):
    allowed = SPILLED | (SPILLED_BY_13_0 if nvrtc.version() == (13, 0) else {})
    for shape in shapes(launch_of(name)):
        text = source_of(shape)
        for arch in ARCHITECTURES if LONG or name not in TYPES else ("sm_90",):
            compiled = nvrtc.compile_text(text, arch)
            assert compiled.cubin[:4] == b"\x7fELF"
            registers, spilled = reads(compiled.log)
            assert registers <= WIDEST.get(name, REGISTERS[shape.variant]), (
                shape.variant,
                arch,
                compiled.log,
            )
            assert spilled <= allowed.get((name, shape.variant), 0), (
                shape.variant,
                arch,
                compiled.log,
            )


TOOLS = {
    **{
        f"verdicts, {m}, {s}": cuda_tools.verdicts_text(m, s)
        for m in (None, True)
        for s in (None, True, False)
    },
    "count": cuda_tools.count_text(),
    "positions": cuda_tools.positions_text(),
    "check": cuda_tools.check_text("float32", ("bits", "bytes")),
    "mend": cuda_tools.replace_unknown_text("float32"),
}


@needs_nvrtc
@pytest.mark.parametrize("name", TOOLS)
def test_other_kernels_compile(name):
    for arch in ARCHITECTURES:
        registers, spilled = reads(nvrtc.compile_text(TOOLS[name], arch).log)
        assert registers <= 32 and spilled == 0


@needs_nvrtc
@pytest.mark.parametrize("name", ["float32", "a set of floats", "5 leaves"])
def test_nothing_is_flushed_or_fused(name):
    for shape in shapes(launch_of(name)):
        for arch in ("sm_90", "sm_100"):
            found = nvrtc.ptx_of(source_of(shape), arch)
            assert "setp" in found and not re.search(r"\.ftz|\bfma\.|\bmad\.rn", found)
    assert ".ftz" in nvrtc.ptx_of(
        source_of(shapes(launch_of("float32"))[0]), "sm_90", options=[*nvrtc.OPTIONS, "-ftz=true"]
    )


# Requests that fail.

TEXT = 'extern "C" __global__ void kernel(int* x) { *x = 1; }'


@needs_nvrtc
def test_text_that_does_not_compile():
    with pytest.raises(
        DeviceError,
        match=r"does not compile a kernel \(NVRTC_ERROR_COMPILATION\):\n"
        r".*error(?s:.*)extern nonsense",
    ):
        nvrtc.compile_text("extern nonsense", "sm_90")


@needs_nvrtc
@pytest.mark.parametrize(
    "arch, error, message",
    [
        (
            "sm_20",
            BackendMissing,
            r"NVRTC 1\d\.\d+ does not support sm_20; the oldest that it supports is "
            r"sm_\d\d\. CUDA 12",
        ),
        ("sm_9x", DeviceError, "'sm_9x' is not a card's architecture; expected one like 'sm_90'"),
        ("compute_90", DeviceError, "'compute_90' is not a card's architecture"),
    ],
)
def test_unknown_architectures(arch, error, message):
    with pytest.raises(error, match=message):
        nvrtc.compile_text(TEXT, arch)


@needs_nvrtc
def test_a_card_that_is_newer_than_nvrtc_gets_ptx():
    assert b".version" in nvrtc.compile_text(TEXT, "sm_999").cubin


@pytest.fixture
def nothing_loaded():
    nvrtc._library.cache_clear()
    yield
    nvrtc._library.cache_clear()


@pytest.mark.parametrize(
    "major, says",
    [
        (
            None,
            r"NVRTC, which compiles kernels .* is not found: "
            r"pip install 'skipstone\[gpu-cuda13\]' or "
            r"pip install 'skipstone\[gpu-cuda12\]'; or use",
        ),
        (
            12,
            r"NVRTC of CUDA 12, .* is not found: pip install 'skipstone\[gpu-cuda12\]'; or use "
            "backend='numba'",
        ),
    ],
)
def test_nvrtc_is_missing(major, says, monkeypatch, nothing_loaded):
    monkeypatch.setattr(nvrtc, "_paths", lambda major: iter(["libno-such-nvrtc.so"]))
    with pytest.raises(BackendMissing, match=says):
        nvrtc.compile_text(TEXT, "sm_90", major=major)


@pytest.mark.parametrize("content", [b"", b"no library"])
def test_nvrtc_cannot_be_loaded(content, monkeypatch, nothing_loaded, tmp_path):
    (tmp_path / "libnvrtc.so.13").write_bytes(content)
    monkeypatch.setattr(nvrtc, "_paths", lambda major: iter([str(tmp_path / "libnvrtc.so.13")]))
    with pytest.raises(
        BackendMissing, match=r"is not found \(.*libnvrtc\.so\.13: .*\): pip install"
    ):
        nvrtc.version()


# The cache.


@pytest.fixture
def kept(monkeypatch, tmp_path):
    """Empty the cache in memory and on disk; return a function that reports NVRTC's compiles and
    the files.
    """
    monkeypatch.setenv("SKIPSTONE_CACHE_DIR", str(tmp_path))
    asked, compile_now = [], nvrtc._Library.compile
    monkeypatch.setattr(compile_cache, "_kernels", {})
    monkeypatch.setattr(
        nvrtc._Library,
        "compile",
        lambda self, *args: asked.append(args) or compile_now(self, *args),
    )
    return asked, lambda: sorted(tmp_path.rglob("*.cubin"))


def forget():
    compile_cache._kernels.clear()


@needs_nvrtc
def test_code_is_cached_in_memory_and_on_disk(kept):
    asked, files = kept
    first = nvrtc.compile_text(TEXT, "sm_90")
    assert nvrtc.compile_text(TEXT, "sm_90") is first and len(asked) == len(files()) == 1
    forget()
    assert nvrtc.compile_text(TEXT, "sm_90") == first and len(asked) == 1
    nvrtc.compile_text(TEXT, "sm_80")
    nvrtc.compile_text(TEXT + "\n", "sm_90")
    assert len(asked) == len(files()) == 3


@needs_nvrtc
def test_another_nvrtc_or_other_options_are_another_file(kept, monkeypatch):
    asked, files = kept
    nvrtc.compile_text(TEXT, "sm_90")
    for owner, name, value in (
        (nvrtc._library(None), "identity", "99.9 1"),
        (nvrtc, "OPTIONS", nvrtc.OPTIONS[:-1]),
    ):
        forget()
        monkeypatch.setattr(owner, name, value)
        nvrtc.compile_text(TEXT, "sm_90")
    assert len(asked) == len(files()) == 3


DAMAGE = {
    "empty": lambda data: b"",
    "cut": lambda data: data[:-1],
    "cut in the checksum": lambda data: data[:20],
    "longer": lambda data: data + b"\0",
    "a bit of the code": lambda data: data[:-9] + bytes([data[-9] ^ 1]) + data[-8:],
    "a bit of the length": lambda data: data[:32] + bytes([data[32] ^ 1]) + data[33:],
    "another text": lambda data: b"\x7fELF" + b"\0" * 300,
}


@needs_nvrtc
@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_damaged_files_are_compiled_again(damage, kept):
    asked, files = kept
    first = nvrtc.compile_text(TEXT, "sm_90")
    whole = files()[0].read_bytes()
    files()[0].write_bytes(damage(whole))
    forget()
    assert nvrtc.compile_text(TEXT, "sm_90") == first
    assert len(asked) == 2 and files()[0].read_bytes() == whole


@needs_nvrtc
def test_a_directory_of_everyone_is_not_used(kept):
    _, files = kept
    nvrtc.compile_text(TEXT, "sm_90")
    files()[0].parent.chmod(0o777)
    forget()
    with pytest.warns(RuntimeWarning, match="skipstone does not keep cubins: others may write to"):
        nvrtc.compile_text(TEXT, "sm_90")


@needs_nvrtc
def test_a_full_disk_loses_only_the_file(kept, monkeypatch):
    def full(path, data):
        raise OSError(28, "No space left on device")

    _, files = kept
    monkeypatch.setattr(compile_cache, "write_whole", full)
    assert nvrtc.compile_text(TEXT, "sm_90").cubin[:4] == b"\x7fELF" and files() == []


@needs_nvrtc
def test_threads_compile_once(kept):
    asked, _ = kept
    meet = threading.Barrier(8)
    with ThreadPoolExecutor(8) as pool:
        made = list(
            pool.map(
                lambda _: meet.wait() is not None and nvrtc.compile_text(TEXT, "sm_90"), range(8)
            )
        )
    assert len(asked) == 1 and all(m is made[0] for m in made)


@needs_nvrtc
def test_processes_compile_once(kept):
    """Of two processes that start at once, one compiles; the other finds its file."""
    _, files = kept
    code = f"""
from skipstone.kernels.gpu import nvrtc
asked, compile_now = [], nvrtc._Library.compile
nvrtc._Library.compile = lambda self, *args: asked.append(args) or compile_now(self, *args)
print(len(nvrtc.compile_text({TEXT!r}, "sm_90").cubin), len(asked))
"""
    both = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    said = sorted(p.communicate(timeout=60)[0].split() for p in both)
    assert said[0][0] == said[1][0] and [s[1] for s in said] == ["0", "1"] and len(files()) == 1


def child(queue):
    queue.put(len(nvrtc.compile_text(TEXT + "// child", "sm_90").cubin))


@needs_nvrtc
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_child_compiles(kept):
    """Also a child that is forked while another thread compiles."""
    texts = [f"{source_of(shapes(launch_of('16 leaves'))[0])}// {i}" for i in range(2)]
    work = threading.Thread(target=lambda: [nvrtc.compile_text(t, "sm_90") for t in texts])
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    work.start()
    process = context.Process(target=child, args=(queue,))
    process.start()
    assert queue.get(timeout=60) > 1000
    process.join(60)
    work.join(60)
    assert process.exitcode == 0
