"""Ctrl-C in real processes: it ends long work early and leaves a usable process behind."""

import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

deltalake = pytest.importorskip("deltalake")

FILES = 200
# The work begins, says so, and is slow from then on; the parent sends SIGINT.
CODE = """
import faulthandler, os, sys, tempfile, threading, time
faulthandler.dump_traceback_later(90)  # says where each thread is if the process hangs
from pathlib import Path
import pyarrow as pa
import skipstone as ss
from skipstone.bindings import progress
from skipstone.bindings.tables.parquet import read_groups
from {module} import {name} as slowed
import {module} as module

progress.FIRST_EVENT_SECONDS = 0.0
read_groups.ARROW_ROWS = read_groups.POLARS_ROWS = 1  # so that files are read one by one
folder, temporary = {folder!r}, Path({temporary!r})
tempfile.tempdir = str(temporary)
done = []

def slow(*args, **kwargs):
    time.sleep(0.02 if len(done) < {files} // 2 else 0.4)  # the signal may be late
    done.append(1)
    return slowed(*args, **kwargs)

def ready(event):
    if not told:
        told.append(event)
        print(event.phase, flush=True)

told = []
module.{name} = slow
table = ss.scan({planned!r}) if {planned!r} else None
done.clear()
try:
    {work}
    print("it was not interrupted")
except KeyboardInterrupt:
    print("interrupted after a part:", 0 < len(done) < {files})
end = time.monotonic() + 10
while time.monotonic() < end:  # what a thread has begun, it ends
    left = [t.name for t in threading.enumerate() if t.name.partition("_")[0] in {threads}]
    if not left:
        break
    time.sleep(0.01)
print("threads:", left, "files:", [p.name for p in temporary.rglob("*")])
module.{name} = slowed
print("rows:", ss.scan(folder).plan("x >= 10").to_arrow().num_rows)
"""
THREADS = ("skipstone-footers", "skipstone-log", "skipstone-read")
TABLES = "skipstone.bindings.tables."


def interrupted(code):
    """Run code, send SIGINT once it says the first word, and return what it prints."""
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    try:
        first = child.stdout.readline()
        child.send_signal(signal.SIGINT)
        rest, _ = child.communicate(timeout=120)
    finally:
        child.kill()
        child.wait()
        child.stdout.close()
    return child.returncode, first.strip(), rest.splitlines()


@pytest.fixture(scope="module")
def parquet(tmp_path_factory):
    folder = tmp_path_factory.mktemp("parquet")
    for i in range(FILES):
        pq.write_table(pa.table({"x": [i]}), folder / f"{i:03}.parquet")
    return folder


@pytest.fixture(scope="module")
def delta(tmp_path_factory):
    folder = tmp_path_factory.mktemp("delta")
    deltalake.write_deltalake(str(folder), pa.table({"x": [0]}))
    log = folder / "_delta_log"
    (part,) = folder.glob("*.parquet")
    commit = (log / f"{0:020}.json").read_text().splitlines()
    (add,) = [line for line in commit if '"add"' in line]
    for i in range(1, FILES):
        name = f"{i:03}.parquet"
        pq.write_table(pa.table({"x": [i]}), folder / name)
        size = str((folder / name).stat().st_size)
        line = add.replace(part.name, name).replace(
            f'"size":{part.stat().st_size}', f'"size":{size}'
        )
        line = line.replace(r"\"x\":0", rf"\"x\":{i}")
        (log / f"{i:020}.json").write_text(line + "\n")
    return folder


# phase -> the fixture, the module and its function that is slowed, the work
CASES = {
    "footers": ("parquet", "parquet.footers", "_read_footer", "ss.scan(folder, progress=ready)"),
    "log": ("delta", "delta.actions", "read_bytes", "ss.scan(folder, progress=ready)"),
    "reading": (
        "parquet",
        "parquet.read_groups",
        "read_files",
        "table.plan('x >= 10').to_arrow(progress=ready)",
    ),
}


@pytest.mark.parametrize("phase", CASES)
def test_ctrl_c_ends_work_early(phase, request, tmp_path):
    fixture, module, name, work = CASES[phase]
    folder = str(request.getfixturevalue(fixture))
    code = CODE.format(
        module=TABLES + module,
        name=name,
        folder=folder,
        planned=folder if phase == "reading" else "",
        temporary=str(tmp_path),
        work=work,
        files=FILES,
        threads=THREADS,
    )
    status, first, rest = interrupted(code)
    assert (first, rest, status) == (
        phase,
        ["interrupted after a part: True", "threads: [] files: []", f"rows: {FILES - 10}"],
        0,
    )
    assert not [p for p in Path(folder).rglob("*") if p.name.endswith((".tmp", ".new"))]
