"""`skipstone plan --paths-only` prints paths for other programs, and nothing else."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.shell import run

#    condition                      the files to read, what standard error says
CASES = [
    ([],                            [0, 1, 2], ""),
    (["-w", "x >= 15"],             [1, 2],    ""),
    (["-w", "x < 0"],               [],        ""),
    (["-w", "x = 5", "--limit", "1"], [0],     ""),
    (["-w", "soundex(x) = 5"],         [0, 1, 2], "soundex(x) = 5"),
]  # fmt: skip


@pytest.fixture
def files(tmp_path):
    paths = [str(tmp_path / f"{i}.parquet") for i in range(3)]
    for i, path in enumerate(paths):
        pq.write_table(pa.table({"x": range(10 * i, 10 * i + 10)}), path)
    return paths


@pytest.mark.parametrize("options, kept, warning", CASES)
def test_paths(files, tmp_path, options, kept, warning):
    done = run("plan", str(tmp_path), *options, "--paths-only")
    assert (done.returncode, done.stdout) == (0, "".join(f"{files[i]}\n" for i in kept))
    assert warning in done.stderr and bool(warning) == bool(done.stderr)


def test_files_that_are_kept_though_unreadable(files, tmp_path):
    (tmp_path / "1.parquet").write_bytes(b"no footer")
    done = run("plan", str(tmp_path), "-w", "x = 25", "--keep-unreadable", "--paths-only")
    assert (done.returncode, done.stdout.split()) == (0, files[1:])
    assert "kept, but unreadable" in done.stderr


@pytest.mark.parametrize("other", ["--json", "--files"])
def test_one_kind_of_output(files, tmp_path, other):
    done = run("plan", str(tmp_path), "--paths-only", other)
    assert done.returncode == 2 and "expected one of --json" in done.stderr
