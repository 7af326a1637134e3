"""The fast part of `make release-check`: version, readme, metadata, changelog, pages."""

import re
import sys
from email.message import Message
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

import hatch_build
import skipstone as ss
from tests.release import artifacts, pages, pythons
from tests.release.environment import Environment

ROOT = artifacts.ROOT
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_version_has_one_home():
    assert artifacts.version() == ss.__version__
    assert "version" in artifacts.PROJECT["dynamic"] and "version" not in artifacts.PROJECT


def test_pythons_are_claimed_as_they_are_checked():
    claimed = [
        text.rpartition(" ")[2]
        for text in artifacts.PROJECT["classifiers"]
        if re.search(r":: 3\.\d+$", text)
    ]
    assert set(claimed) <= set(pythons.SUPPORTED)
    assert min(claimed, key=Version) == artifacts.PROJECT["requires-python"].removeprefix(">=")


def test_sqlglot_is_held_to_the_major_version_that_was_tested():
    (claim,) = [
        r for r in map(Requirement, artifacts.PROJECT["dependencies"]) if r.name == "sqlglot"
    ]
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    (tested,) = [Version(v) for n, _, v in (x.partition("==") for x in lines) if n == "sqlglot"]
    assert tested in claim.specifier
    assert Version(f"{tested.major + 1}.0.0") not in claim.specifier


#    Markdown                            in the package
LINKS = [
    ("[a](docs/a.md)",                   "[a](U/blob/main/docs/a.md)"),
    ("[a](docs/a.md#b) [c](d)",          "[a](U/blob/main/docs/a.md#b) [c](U/blob/main/d)"),
    ("![a](docs/a.svg)",                 "![a](U/raw/main/docs/a.svg)"),
    ("[a](#part)",                       "[a](#part)"),
    ("[a](https://host/x)",              "[a](https://host/x)"),
    ("[a](mailto:x@host)",               "[a](mailto:x@host)"),
]  # fmt: skip


@pytest.mark.parametrize("text, absolute", LINKS)
def test_links_become_absolute(text, absolute):
    assert hatch_build.absolute_links(text, "U") == absolute


def wheel(version=None, body=None, **headers):
    message = Message()
    fields = {
        "Version": version or artifacts.version(),
        "Description-Content-Type": "text/markdown",
        "Requires-Python": artifacts.PROJECT["requires-python"],
    } | headers
    for name, value in fields.items():
        message[name] = value
    for name, url in artifacts.PROJECT["urls"].items():
        message["Project-URL"] = f"{name}, {url}"
    source = artifacts.PROJECT["urls"]["Source"]
    message.set_payload(hatch_build.absolute_links(body or README, source))
    return message


def test_the_readme_of_the_package_has_no_relative_link():
    assert artifacts.metadata_faults(wheel()) == []


def test_faults_of_metadata_are_found():
    assert artifacts.metadata_faults(wheel(version="0.0.9"))
    assert artifacts.metadata_faults(wheel(body="nothing"))
    relative = wheel()
    relative.set_payload(README)
    assert any("relative" in fault for fault in artifacts.metadata_faults(relative))


def test_the_changelog_has_the_version():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert artifacts.changelog_faults(text, artifacts.version()) == []
    assert artifacts.changelog_faults(text, "99.0.0")
    assert artifacts.changelog_faults("## 9.9.0\n\n## 9.8.0\n\n- x\n", "9.9.0")


def test_commands_and_blocks_of_a_page_are_found():
    shown = pages.commands(README)
    assert all(command.startswith("skipstone plan ") for command, _ in shown) and shown
    assert all("row groups" in output for _, output in shown)
    assert [pages.needed(block) for block in pages.blocks(README)] == [set(), {"pyspark"}]


def test_pythons_that_are_absent_are_left_out():
    found = pythons.find(["3.11", "2.6"])
    assert "2.6" not in found


def test_a_page_shows_a_part_of_the_output():
    assert pages.shows("title \n| a |\n| b |\nin 3 ms\n", "| a |\n| b |\n")
    assert not pages.shows("| a |\n| c |\n", "| a |\n| b |\n")


def test_commands_of_pages_may_be_pipelines():
    here = Environment(Path(sys.prefix), "", lowest=False)
    assert here.type_in("python --version | wc -l", ROOT).strip() == "1"
