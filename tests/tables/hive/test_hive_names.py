"""Names of files and folders that no table expects: each is read, or the error names it."""

import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skipstone as ss
from tests.support import shell

SCANS = {
    "scan": ss.scan,
    "parquet": ss.scan_parquet,
    "hive": ss.scan_hive,
    "glob": lambda root: ss.scan_parquet(f"{root}/**/*.parquet"),
}
COMMANDS = ("plan", "explain", "stats", "check", "advise")


@pytest.mark.parametrize("below", ["", "k=1/"])
def test_names_that_are_not_text(tmp_path, below):
    """pyarrow decodes a name only when it is asked for it."""
    folder = tmp_path / below
    folder.mkdir(exist_ok=True)
    pq.write_table(pa.table({"x": [1]}), folder / "a.parquet")
    try:
        os.link(folder / "a.parquet", os.fsencode(folder) + b"/b\xff.parquet")
    except OSError:
        pytest.skip("this file system accepts only text as names")
    for name, scan in SCANS.items():
        with pytest.raises(ss.SourceError, match=r"b\\udcff\.parquet.* is not UTF-8 text") as e:
            scan(str(tmp_path)).plan("x = 1")
        assert str(e.value).isprintable(), name
    for command in COMMANDS:
        where = ("-w", "x = 1") if command == "explain" else ()
        done = shell.run(command, str(tmp_path), *where)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith("skipstone: SourceError: ") and done.stderr.count("\n") == 1
