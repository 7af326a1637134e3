"""`plan.explain()`: phases, conjuncts, reasons with hints, the story of one container."""

import json
import re

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skipstone as ss
from skipstone.bindings.plans.explain.phases import masks_of, phases_of
from skipstone.bindings.plans.explain.report import explanation_of
from skipstone.bindings.plans.explain.undecided import TRUNCATED
from tests.support.tables.formats import FORMATS

FOLDERS = 4


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Four partitions of 100 rows in ten row groups, with pages of 5 rows and bloom filters."""
    root = tmp_path_factory.mktemp("t")
    for p in range(FOLDERS):
        at = root / f"p={p}"
        at.mkdir()
        x = np.arange(p * 100, p * 100 + 100)
        rows = pa.table({
            "x": pa.array(x, pa.int64()),
            "k": pa.array((x * 7919) % 1000, pa.int64()),
            "s": [f"https://example.org/a/very/long/prefix/of/names/{i}" for i in x],
            "n": pa.array([None if i % 2 else i for i in x], pa.int64()),
        })  # fmt: skip
        pq.write_table(
            rows, at / "part.parquet", row_group_size=10, max_rows_per_page=5, write_batch_size=5,
            write_page_index=True, write_statistics=["x", "k", "s"],
            bloom_filter_options={"k": True},
        )  # fmt: skip
    return root


@pytest.fixture(scope="module")
def table(folder):
    return ss.scan_parquet(str(folder))


def phases(plan):
    return {p.name: (p.containers_in, p.containers_out) for p in phases_of(plan)}


@pytest.mark.parametrize(
    ("where", "never"),
    [
        ("x BETWEEN 3 AND 1", True),
        ("x > 5 AND x < 3", True),
        ("x = NULL", True),
        ("FALSE", True),
        ("x > 10000", False),  # statistics decide
        ("x = 5 OR p IS NULL", False),
    ],
)
def test_a_condition_that_no_row_can_fulfil_is_said(table, where, never):
    plan = table.plan(where)
    line = "no row can match: the condition is never TRUE, whatever the statistics say"
    assert (line in plan.explain()) is (line in plan.explain(format="html")) is never
    assert json.loads(plan.explain(format="json"))["never_true"] is never
    assert not never or not len(plan.kept)


def test_phases_follow_the_containers(table):
    plan = table.plan("p IN (1, 2) AND x >= 150 AND k = 7919 * 233 % 1000")
    found = phases(plan)
    assert found["partition"] == (40, 20)
    assert found["statistics"][0] == 20 and found["statistics"][1] <= 15
    assert found["membership"] == (found["statistics"][1], len(plan.kept))
    assert found["membership"][1] < found["membership"][0]
    _ = plan.pages
    assert phases(plan)["pages"][0] == len(plan.kept)


def test_dynamic_filters_and_limits_are_phases(table):
    collector = ss.DynamicFilterCollector(["key"], pa.schema([("key", pa.int64())]))
    collector.add(pa.table({"key": [5, 215, 395]}))
    keys = ss.DynamicFilter(collector.finish(), columns={"key": "x"})
    plan = table.plan("x >= 100", dynamic=[keys])
    assert phases(plan) == {"partition": (40, 40), "statistics": (40, 30), "dynamic": (30, 2)}
    limited = table.plan("x >= 100", limit=15)
    assert phases(limited)["limit"] == (30, 2)
    (note,) = [p.note for p in phases_of(limited) if p.name == "limit"]
    assert note == "15: reached by 20 rows of fully matched containers"


@pytest.mark.parametrize(
    "where",
    [
        None, "true", "x > 150", "p = 1", "p = 1 AND k = 3", "k IN (1, 2, 3)", "s LIKE '%9'",
        "p = 1 OR x > 390", "n IS NULL", "x < 0", "p > 7", "soundex(s) = 'a' AND x > 390",
    ],
)  # fmt: skip
@pytest.mark.parametrize("stats_skipping", [True, False])
def test_phases_only_lose_containers_and_end_with_the_kept(table, where, stats_skipping):
    plan = table.plan(where, stats_skipping=stats_skipping)
    before = np.ones(len(plan.verdicts), bool)
    for name, kept in masks_of(plan).items():
        assert not (kept & ~before).any(), name
        before = kept
    assert np.flatnonzero(before).tolist() == plan.kept.tolist()
    reasons = sum(r.containers for r in plan.kept_reasons)
    assert reasons == len(plan.kept) == sum(plan.kept_because.values())


def reasons(plan):
    return {r.reason: r.hint for r in plan.kept_reasons}


NAME = "https://example.org/a/very/long/prefix/of/names/5"
#    condition                     reason                              words of the hint
REASONS = [
    ("md5(s) = 'a'",               "md5(s) cannot be bounded",         "compare `s` itself"),
    ("s LIKE '%9'",                "s LIKE '%9' cannot be bounded",    "a literal start"),
    ("x % 2 = 0",                  "the bounds overlap the condition", "clustered by `x`"),
    ("n > 5",                      "no bounds of n",                   "40 row groups"),
    ("n IS NULL",                  "no null counts of n",              "written by parquet-cpp"),
    ("soundex(s) = 'a'",           "the form is not understood",       "by Spark or another"),
    (f"CAST(s AS BINARY) = X'{NAME.encode().hex()}'", "the bounds overlap the condition", "by `s`"),
    ("s = 5",                      "CAST(s AS BIGINT) cannot be bounded", "compare `s` with text"),
]  # fmt: skip


@pytest.mark.parametrize(("where", "reason", "words"), REASONS)
def test_reasons_come_with_hints(table, where, reason, words):
    plan = table.plan(where)
    words = "in 4 files written by parquet-cpp" if words == "40 row groups" else words
    assert list(reasons(plan)) == [reason]
    assert words in reasons(plan)[reason]
    assert f"hint: {reasons(plan)[reason]}" in plan.explain()


@pytest.mark.parametrize("length", TRUNCATED)
def test_truncated_bounds_that_share_a_prefix_are_named(tmp_path, length):
    schema = pa.schema([("s", pa.string())])
    prefix = "a" * (length - 1)
    stats = {"s": {"min": [prefix + "a", "b"], "max": [prefix + "b", "d"]}}
    found = ss.Statistics.from_dict(stats, schema, row_count=[10, 10])
    text = ss.PruningPredicate(f"s IN ('{prefix}ax', 'c')", schema).explain(found)
    assert f"1 of the kept: bounds of s truncated to {length} characters share a prefix" in text


def test_delta_names_columns_beyond_the_indexed_ones(tmp_path):
    deltalake = pytest.importorskip("deltalake")
    path = str(tmp_path / "t")
    rows = pa.table({f"c{i}": [i, i + 1] for i in range(41)})
    deltalake.write_deltalake(path, rows)
    plan = ss.scan_delta(path).plan("c40 = 7", footers=0)
    assert "column 41 lies beyond the 32 indexed columns" in reasons(plan)["no bounds of c40"]
    assert phases(plan) == {"statistics": (1, 1)}
    by_footers = ss.scan_delta(path).plan("c40 = 7")
    assert phases(by_footers) == {"statistics": (1, 1), "footers": (1, 0)}


def test_the_story_of_a_row_group(table):
    plan = table.plan("p = 1 AND x >= 155 AND k < 10000")
    text = plan.explain(container="p=1/part.parquet:5")
    story = text.split("\ncontainer ")[1].splitlines()
    assert story[0].endswith("p=1/part.parquet, row group 5")
    assert story[1].startswith("   kept, rows are filtered: 10 rows, ")
    assert [line for line in story if "from 150 to 159" in line]
    assert [re.sub(r"^[├└]─ ", "", line) for line in story if line[0] in "├└"] == [
        "p = 1  ALWAYS",
        "x >= 155  MAYBE: the bounds overlap the condition",
        "k < 10000  ALWAYS",
    ]
    (story,) = explanation_of(plan, container="p=0/part.parquet:3").stories
    assert (story.kept, story.pruned_by, story.verdict) == (False, "partition", "NEVER")
    every = explanation_of(plan, container="p=1/part.parquet").stories
    assert [s.row_group for s in every] == list(range(10))
    assert [s.row_group for s in every if s.kept] == [5, 6, 7, 8, 9]
    assert {s.pruned_by for s in every} == {"statistics", None}


def test_stories_agree_with_the_plan(table):
    plan = table.plan("(x > 150 AND k = 12) OR p = 3")
    stories = [s for path in table.all_files for s in explanation_of(plan, container=path).stories]
    assert [s.verdict for s in stories] == [ss.Verdict(int(v)).name for v in plan.verdicts]
    assert np.flatnonzero([s.kept for s in stories]).tolist() == plan.kept.tolist()
    assert [s.pruned_by is None for s in stories] == [s.kept for s in stories]


@pytest.mark.parametrize(
    ("container", "words"),
    [
        ("nope.parquet", "the plan has no such file; its files are: "),
        ("part.parquet", "several files of the plan end so"),
        ("p=1/part.parquet:10", "the file has 10, from 0"),
        ("", "the plan has no such file"),
    ],
)
def test_a_container_that_is_not_there_is_an_error(table, container, words):
    with pytest.raises(ss.PredicateError, match=words):
        table.plan("x > 5").explain(container=container)


def test_an_unknown_format_is_an_error(table):
    with pytest.raises(ss.PredicateError, match="format is 'xml'; expected 'text', 'json', 'html'"):
        table.plan("x > 5").explain(format="xml")


def test_times_and_work_are_of_this_plan_alone(folder):
    table = ss.scan_parquet(str(folder))
    plan = table.plan("k = 7")
    again = table.plan("x > 5")
    assert set(plan.seconds) == {"condition", "statistics", "dynamic", "limit", "total"}
    assert sum(s for name, s in plan.seconds.items() if name != "total") <= plan.seconds["total"]
    assert plan.work["bloom filters"] > 0 and plan.work["footers"] == 0
    assert again.work["bloom filters"] == 0 and again.work.bytes == 0


def test_steps_add_up_to_the_time_of_planning(table):
    (line,) = re.findall("planned in (.*)", table.plan("k = 7").explain())
    whole, *steps = [float(ms.replace(",", "")) for ms in re.findall(r"([\d,.]+) ms", line)]
    assert abs(whole - sum(steps)) <= 0.05 * (1 + len(steps)) + 1e-9  # each is rounded to 0.1 ms
    assert "and other work" in line


def test_bloom_filters_are_named_as_such(table):
    text = table.plan("k = 7").explain()
    assert "─ value lists and bloom filters " in text and "membership" not in text


def test_json_says_what_text_says(table):
    plan = table.plan("p = 1 AND x >= 150")
    place = "p=1/part.parquet:5"
    found = json.loads(plan.explain(format="json", pages=True, program=True, container=place))
    assert found["containers"] == {"total": 40, "kept": 5}
    assert [p["name"] for p in found["phases"]] == [
        "partition", "statistics", "membership", "pages",
    ]  # fmt: skip
    assert [c["text"] for c in found["conjuncts"]] == ["p = 1", "x >= 150"]
    assert found["kept_because"] == {"every row matches": 5}
    assert found["stories"][0]["conjuncts"][1]["statistics"] == [
        {"column": "x", "min": "150", "max": "159", "null_count": 0, "nan_count": None}
    ]
    assert "can match" in found["program"] and len(found["pages"]) == 1
    assert "program" not in json.loads(plan.explain(format="json"))


def test_html_escapes_and_loads_nothing(table):
    page = table.plan("s = '<script>alert(1)</script>' OR soundex(s) = '<b>'").explain(
        format="html", container="p=1/part.parquet:5", program=True
    )
    assert page.startswith("<!doctype html>") and page.rstrip().endswith("</html>")
    assert "<script>alert" not in page and "&lt;script&gt;alert" in page and "<b>" not in page
    assert "http" not in re.sub("https://example.org", "", page)
    for heading in ("Phases", "Conjuncts", "Why containers are kept", "Parts that never prune"):
        assert f"<h2>{heading}</h2>" in page


def test_bars_of_the_page_have_a_heading_and_are_empty_where_nothing_is_left(table):
    page = table.plan("x > 10000").explain(format="html")
    assert page.count("<th>left</th>") == 2
    assert '<div class="bar" title="0.0 % left"></div>' in page and "width: 0.00%" not in page


def test_the_program_stands_behind_an_option(table):
    plan = table.plan("x > 5")
    assert "can match" not in plan.explain() and "can match" in plan.explain(program=True)


def test_plans_without_a_condition_are_explained(table):
    text = table.plan().explain(container="p=1/part.parquet:0", program=True)
    assert text.startswith("Plan of all rows") and "40 row groups: there is no condition" in text


def test_counts_are_those_of_the_rows(table, folder):
    """What conjuncts prune is checked by DuckDB: no pruned row group holds a match."""
    plan = table.plan("x % 100 < 20 AND x BETWEEN 130 AND 260")
    rows = duckdb.sql(
        f"SELECT x // 10 AS g, count(*) FILTER (x % 100 < 20 AND x BETWEEN 130 AND 260) AS n "
        f"FROM '{folder}/*/*.parquet' GROUP BY g"
    ).fetchall()
    assert {g for g, n in rows if n} <= set(plan.kept.tolist())
    assert sum(c.after for c in plan.conjuncts) <= len(plan.verdicts) - len(plan.kept)


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_is_explained(tmp_path, name):
    plan = FORMATS[name](tmp_path / "t").plan("x > 11 AND s < 'h'")
    found = json.loads(plan.explain(format="json", pages=True))
    assert found["phases"][-1]["name"] == "pages"
    before = len(plan.verdicts)
    for phase in found["phases"][:-1]:
        assert phase["containers_in"] == before >= phase["containers_out"]
        before = phase["containers_out"]
    assert before == len(plan.kept) == sum(found["kept_because"].values())
    assert found["seconds"]["total"] > 0
    path = plan.files[0]
    stories = explanation_of(plan, container=path).stories
    assert sum(s.kept for s in stories) == max(1, len(plan.row_groups[path]))
    assert all(line for line in plan.explain(container=path, program=True).splitlines())
    assert plan.explain(container=path, format="html")


def test_notebooks_show_reports_line_by_line(folder):
    """IPython calls `_repr_pretty_` if the class of a text has it, and prints `repr` otherwise."""
    plan, shown = ss.scan(str(folder)).plan("x > 50"), []

    class Printer:
        text = shown.append

    reports = [plan.explain(), plan.explain(format="json"), plan.predicate.explain()]
    for report in reports:
        report._repr_pretty_(Printer, False)
    assert shown == reports and all(type(text) is str for text in shown)
