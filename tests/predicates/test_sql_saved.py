"""A process that finds a text parsed on disk gets the tree that it would have made itself."""

import importlib
import json
import os
import subprocess
import sys
import time
from hashlib import sha256
from pathlib import Path

import pytest

from skipstone.bindings.predicates import sql, sql_saved
from skipstone.ir import types as ty
from skipstone.ir.node import Name, Node, Op, literal, unknown
from skipstone.kernels.config import config

TEXTS = (
    "x = 5",
    "x >= 5 AND s = 'a'",
    "d BETWEEN DATE '2024-01-01' AND DATE '2024-02-01'",
    "t >= TIMESTAMP '2024-01-01 00:00:00' AND u < TIMESTAMP_NTZ'2024-01-01T00:00:00.5'",
    "x IN (1, 2, 3) OR NOT s LIKE 'a%'",
    "`a b`.c IS NOT NULL",
    "b AND NOT c",
    "upper(s) = 'A' AND x <> -1",
    "exists(a, v -> v > 5)",
    "if(x > 1, b, NOT c)",
)
# A literal stays in the text, or the tree depends on its value, or a form is UNKNOWN.
NOT_SAVED = (
    *("s = r'secret'", "s = 'it''s'", 's = "secret"', "s LIKE 'a!%' ESCAPE '!'", "x = ANY (1)"),
    *("x = 31415926L", "x = 5 AND y = 31415926L", "CAST(x AS DECIMAL(10, 2)) > 1", "b = X'1F'"),
)

PARSE = """
import sys
if sys.argv[1] == "first":
    import sqlglot
from skipstone.bindings.predicates import sql
for text in sys.argv[2:]:
    print(repr(sql.parse(text)))
print("sqlglot" in sys.modules)
"""


def parse(cache, *texts, how="later"):
    """Parse texts in a fresh process; return the trees, and whether sqlglot was imported."""
    done = subprocess.run(
        [sys.executable, "-c", PARSE, how, *texts],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"SKIPSTONE_CACHE_DIR": str(cache)},
    )
    assert done.stderr == ""
    *trees, imported = done.stdout.splitlines()
    return trees, imported == "True"


def files(cache):
    return sorted(Path(cache).glob("parses/*/parse_*.json"))


@pytest.fixture(scope="module", autouse=True)
def settled():
    """Wait until the sources are so old that processes save what they parse with them."""
    changed = [
        max(found.st_mtime, found.st_ctime)
        for name in ("skipstone.ir", "skipstone.bindings", "sqlglot")
        for place in importlib.import_module(name).__path__
        for path in Path(place).rglob("*.py")
        for found in [path.stat()]
    ]
    time.sleep(min(max(0.0, max(changed) + sql_saved.SETTLED / 1e9 - time.time()), 20))


@pytest.fixture
def saving(tmp_path, monkeypatch):
    """Save the texts of this process, as if nobody had imported sqlglot before, and as if its
    sources were old, which a checkout's may not be.
    """
    monkeypatch.setattr(sql_saved, "_imported_here", True)
    monkeypatch.setattr(sql_saved, "_saved", 0)
    monkeypatch.setattr(sql_saved, "IMPORTED", 2**63)
    state = sql_saved._state_of_sources
    state.cache_clear()
    with config.override(kernel_cache_dir=str(tmp_path)):
        yield tmp_path
    state.cache_clear()


def test_a_later_process_does_without_sqlglot(tmp_path):
    first, imported = parse(tmp_path, *TEXTS)
    assert imported and len(files(tmp_path)) == len(TEXTS)
    again, imported = parse(tmp_path, *TEXTS)
    assert again == first and not imported
    # So do the same texts with other literals.
    texts = ("x >= 7 AND s = 'it is'", "x IN (9, 8, 1.5) OR NOT s LIKE ''")
    assert parse(tmp_path, *texts) == ([repr(sql._parse(t)) for t in texts], False)


def test_a_text_that_is_not_saved_is_parsed_beside_those_that_are(tmp_path):
    parse(tmp_path, TEXTS[0])
    trees, imported = parse(tmp_path, TEXTS[0], TEXTS[1])
    assert imported and trees == [repr(sql._parse(t)) for t in TEXTS[:2]]
    assert len(files(tmp_path)) == 2


def test_literals_are_not_saved(tmp_path):
    parse(tmp_path, "s = 'secret' AND x = 31415926", "s IN ('secret', 'b')", *NOT_SAVED)
    assert len(files(tmp_path)) == 2
    for path in files(tmp_path):
        assert b"secret" not in path.read_bytes() and b"31415926" not in path.read_bytes()


def test_nothing_is_saved_if_sqlglot_was_there_first(tmp_path):
    # Whoever imported it may have changed its dialects.
    parse(tmp_path, *TEXTS, how="first")
    assert files(tmp_path) == []


CHANGES = (
    "Spark.parser_class.FUNCTIONS['NEW'] = print",
    "setattr(Spark.parser_class, 'LOG_DEFAULTS_TO_LN', not Spark.parser_class.LOG_DEFAULTS_TO_LN)",
    "Spark.tokenizer_class.KEYWORDS['NEW'] = next(iter(Spark.tokenizer_class.KEYWORDS.values()))",
    "setattr(Spark, 'STRICT_STRING_CONCAT', not Spark.STRICT_STRING_CONCAT)",
)


@pytest.mark.parametrize("change", CHANGES)
def test_nothing_is_saved_once_the_dialect_was_changed(tmp_path, change):
    code = (
        "from skipstone.bindings.predicates import sql; sql.parse('x = 1')\n"
        f"from sqlglot.dialects.spark import Spark\n{change}\nsql.parse('y = 1 AND z = 1')"
    )
    env = os.environ | {"SKIPSTONE_CACHE_DIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", code], check=True, env=env)
    assert len(files(tmp_path)) == 1


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[:-1],
        lambda data: data[:40] + bytes([data[40] ^ 1]) + data[41:],
        lambda data: b"\0" * len(data),
        lambda data: data + b" ",
    ],
)
def test_a_damaged_file_counts_as_missing(tmp_path, damage):
    text = "x >= 5 AND s = 'a'"
    (tree,), _ = parse(tmp_path, text)
    (path,) = files(tmp_path)
    path.write_bytes(damage(path.read_bytes()))
    assert parse(tmp_path, text) == ([tree], True)


def test_a_file_of_another_text_counts_as_missing(saving):
    parsed = sql._parse("x = 987000000")
    sql_saved.save("x = 987000000", parsed)
    (path,) = files(saving)
    data = json.loads(path.read_bytes()[sql_saved.DIGEST :])
    other = json.dumps(data | {"text": "y = 987000000"}).encode()
    path.write_bytes(sha256(other).digest() + other)
    assert sql_saved._read("x = 987000000") is None


def test_other_sources_have_other_files(saving, monkeypatch):
    sql_saved.save("x = 1", sql._parse("x = 1"))
    assert sql_saved._read("x = 1") is not None
    monkeypatch.setattr(sql_saved, "_state_of_sources", lambda: "sqlglot 99")
    assert sql_saved._read("x = 1") is None
    monkeypatch.setattr(sql_saved, "_state_of_sources", lambda: None)  # imported from a zip file
    assert sql_saved._read("x = 1") is None
    sql_saved.save("x = 2", sql._parse("x = 2"))
    assert len(files(saving)) == 1


@pytest.mark.parametrize("lacking", ["skipstone", "sqlglot"])
@pytest.mark.parametrize("place", ["empty", "none"])
def test_sources_that_are_no_files_have_no_state(lacking, place, tmp_path, monkeypatch):
    """Such as modules in a zip file, or compiled ones alone."""
    monkeypatch.setattr(sql_saved, "IMPORTED", 2**63)
    (tmp_path / "empty").mkdir()
    read, inner = sql_saved._state_of_sources.__wrapped__, sql_saved._sources_below
    assert read() is not None

    def moved(top):
        return inner(str(tmp_path / place) if lacking in top else top)

    monkeypatch.setattr(sql_saved, "_sources_below", moved)
    assert read() is None


def test_the_state_of_sources_has_every_module_that_parses(saving):
    listed = {line.rsplit(" ", 2)[0] for line in sql_saved._state_of_sources().splitlines()}
    code = "from skipstone.bindings.predicates import sql; sql._parse('x = 1'); import sys\n"
    code += "print(*(m.__file__ for n, m in sys.modules.items() if n.startswith('sqlglot.')"
    code += " or n.startswith(('skipstone.ir.', 'skipstone.bindings.pred'))), sep='\\n')"
    loaded = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert loaded.returncode == 0 and set(loaded.stdout.splitlines()) <= listed


def test_sources_that_have_just_changed_save_nothing(saving, monkeypatch):
    """A process may run the sources of before, and must not save their trees as those of now."""
    changed = max(os.stat(f).st_ctime_ns for f in (sql.__file__, sql_saved.__file__))
    monkeypatch.setattr(sql_saved, "_state_of_sources", sql_saved._state_of_sources.__wrapped__)
    monkeypatch.setattr(sql_saved, "IMPORTED", changed + sql_saved.SETTLED // 2)
    sql_saved.save("x = 1", sql._parse("x = 1"))
    assert files(saving) == []


def test_a_process_saves_few_texts(saving):
    for i in range(sql_saved.MAX_SAVED + 5):
        sql_saved.save(f"x{i} = 1", sql._parse(f"x{i} = 1"))
    assert len(files(saving)) == sql_saved.MAX_SAVED


def test_the_oldest_files_are_removed(saving, monkeypatch):
    monkeypatch.setattr(sql_saved, "MAX_FILES", 4)
    for i in range(8):
        monkeypatch.setattr(sql_saved, "_saved", 0)  # each in a process of its own
        sql_saved.save(f"x{i} = 1", sql._parse(f"x{i} = 1"))
        os.utime(sql_saved._path_of(f"x{i} = 1"), (i, i))
    assert len(files(saving)) <= 5
    assert sql_saved._read("x0 = 1") is None and sql_saved._read("x7 = 1") is not None


def test_a_folder_of_others_is_not_used(saving):
    sql_saved.save("x = 1", sql._parse("x = 1"))
    os.chmod(saving / "parses", 0o777)
    assert sql_saved._read("x = 1") is None
    os.chmod(saving / "parses", 0o700)
    assert sql_saved._read("x = 1") is not None


def test_a_disk_that_cannot_be_written_to_is_no_error(tmp_path):
    (tmp_path / "file").write_text("")
    assert parse(tmp_path / "file", "x = 1") == ([repr(sql._parse("x = 1"))], True)


@pytest.mark.parametrize(
    "node",
    [
        unknown("x", "why"),
        Node(Op.CALL, (), ("f", object())),
        Node(Op.LITERAL, (), frozenset([1]), ty.INT32),
    ],
)
def test_a_tree_of_other_values_is_not_saved(saving, node):
    sql_saved.save("x", (node, {}))
    assert files(saving) == []


def test_every_kind_of_value_is_read_as_it_was():
    array = ty.DType(ty.Kind.OTHER, name="array<int>", element=ty.INT32)
    values = (None, True, -5, 10**30, 0.1, float("inf"), "\udc80", b"\xff", (1, (b"", "")), array)
    node = Node(Op.CALL, (literal(1.5, ty.DOUBLE), Node(Op.COLUMN, (), Name(("a.b", "é")))), values)
    positions = {Name(("a.b", "é")): 7}
    data = sql_saved._as_bytes("t", (node, positions))
    found = sql_saved._parsed_of("t", data)
    assert found == (node, positions) and repr(found) == repr((node, positions))
    assert found[0].value[-1].element == ty.INT32
