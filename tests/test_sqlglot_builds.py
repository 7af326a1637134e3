"""Text is read alike where sqlglot's compiled build is installed beside its sources."""

import json
import os
import shutil
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec
from pathlib import Path

import pytest

TEXTS = (
    "x >= 5 AND NOT s LIKE 'a!%' ESCAPE '!'",
    "d BETWEEN DATE '2024-01-01' AND DATE '2024-02-01' OR upper(s) = 'A'",
    "t >= TIMESTAMP_NTZ'2024-01-01T00:00:00.5'",
    "x IN (1, 2, 3) AND +x >>> 2 = 1 AND CAST(x AS DECIMAL(10, 2)) > 1.5BD",
    "exists(a, v -> v > 5) AND v:a.b = 1 AND x BETWEEN SYMMETRIC 1 AND 5",
    "s + INTERVAL 1 DAY > current_timestamp() AND m['k'].c <=> NULL",
    *("x IN (1,, 2)", "x BETWEEN 1 2", "x = 'open", "x = 1e-2.5BD", "interval = 1", "x: = 1"),
    *("SELECT 1", "x = (SELECT max(y) FROM t)", "timestamp > 5 AND group = 3"),
)
WORKLOAD = "SELECT a FROM t WHERE x = 1 AND y > 2; SELECT 1 FROM u JOIN t ON u.k = t.k AND z < 3"
READ = """
import json, sys
sys.path[:0] = sys.argv[1:2]
from skipstone.bindings.layout.workload_sql import read_workload
from skipstone.bindings.predicates import sql
from skipstone.ir.errors import PredicateError

def read(text):
    try:
        return repr(sql.parse(text))
    except PredicateError as e:
        return str(e)

texts, workload = json.loads(sys.stdin.read())
found = [*map(read, texts), repr(sql.parse_order("x DESC, y NULLS LAST"))]
found.append(repr(read_workload(workload, ["a", "x", "y", "z", "k"], "t")))
print(json.dumps([found, "sqlglot" in sys.modules]))
"""


@pytest.fixture
def compiled(tmp_path):
    """Return a folder with sqlglot's sources and, beside them, modules that cannot be imported."""
    sources = Path(find_spec("sqlglot").origin).parent
    shutil.copytree(sources, tmp_path / "sqlglot", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("parser", "tokenizer_core", "helper", "expressions/core", "parsers/spark"):
        (tmp_path / f"sqlglot/{name}{EXTENSION_SUFFIXES[0]}").write_bytes(b"not a module")
    return tmp_path


def read(cache, *packages):
    """Read all texts in a fresh process; return what they are, and whether it imported sqlglot."""
    done = subprocess.run(
        [sys.executable, "-c", READ, *map(str, packages)],
        input=json.dumps([TEXTS, WORKLOAD]),
        capture_output=True,
        text=True,
        env=os.environ | {"SKIPSTONE_CACHE_DIR": str(cache)},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_sources_are_read_where_the_compiled_build_is_installed(compiled, tmp_path):
    plain, imported = read(tmp_path / "plain")
    assert imported
    assert read(tmp_path / "compiled", compiled) == [plain, False]
