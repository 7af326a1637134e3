"""Packaging: the wheel holds the three floors, the sdist builds it, no file names a machine."""

import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from tests.release.artifacts import metadata, metadata_faults

ROOT = Path(__file__).parent.parent


def build(source, target, what):
    subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", what, "-o", target, source],
        check=True,
        capture_output=True,
        timeout=300,
    )
    return next(target.iterdir())


@pytest.fixture(scope="module")
def sdist(tmp_path_factory):
    return build(ROOT, tmp_path_factory.mktemp("sdist"), "--sdist")


def modules(floor):
    return {
        f"skipstone/{p.relative_to(ROOT)}"
        for p in (ROOT / floor).rglob("*")
        if p.suffix in (".py", ".java", ".js", ".css")
    }


@pytest.fixture(params=["sdist", "checkout"])
def source(request, tmp_path):
    """The folder that wheels are built from."""
    if request.param == "checkout":
        return ROOT
    with tarfile.open(request.getfixturevalue("sdist")) as tar:
        safely = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # from 3.11.4
        tar.extractall(tmp_path / "source", **safely)
    return next((tmp_path / "source").iterdir())


def test_wheel_holds_every_module(source, tmp_path):
    wheel = build(source, tmp_path / "wheel", "--wheel")
    with zipfile.ZipFile(wheel) as z:
        names = set(z.namelist())
    assert (
        modules("ir")
        | modules("kernels")
        | modules("bindings")
        | {"skipstone/__init__.py", "skipstone/py.typed", "pyspark_skipstone/__init__.py"}
        <= names
    )
    assert metadata_faults(metadata(wheel)) == []


def tracked():
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode:
        pytest.skip("not a git checkout")
    return [ROOT / p for p in listed.stdout.splitlines() if (ROOT / p).is_file()]


# Assembled from parts, so that this file does not match.
FORBIDDEN = re.compile(
    "|".join(
        [
            "pypi" + r"\.org",
            "files" + r"\.pythonhosted",
            "--index" + "-url",
            "/ho" + "me/",
            "/wo" + "rk/",
            "/ro" + "ot/",
        ]
    )
)


def test_no_addresses_or_machine_paths():
    found = [
        f"{p}: {m[0]}"
        for p in tracked()
        if p.suffix not in (".parquet", ".png")
        for m in [FORBIDDEN.search(p.read_text(errors="ignore"))]
        if m
    ]
    assert not found


def test_links_mirror_the_folders():
    for floor in ("ir", "kernels", "bindings"):
        link = ROOT / "src" / "skipstone" / floor
        assert link.is_symlink()
        assert link.resolve() == ROOT / floor


def test_constraints_name_exact_versions():
    lines = [
        line
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if not line.startswith("#")
    ]
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.+]+", line) for line in lines)


def test_spark_brings_what_connect_imports():
    """`prune` and `read` work in Spark Connect, too, so `spark` and `all` install its client."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    (pyspark,) = [text for text in extras["spark"] if text.startswith("pyspark")]
    assert {"sql", "connect"} <= set(re.findall(r"\w+", pyspark.split("]")[0]))
    assert any("spark" in text for text in extras["all"])
