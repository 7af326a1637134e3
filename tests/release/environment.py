"""A fresh environment that has a wheel and nothing of the checkout."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.release.artifacts import ROOT, version

LOWEST = ROOT / "constraints-lowest.txt"
TEST_TOOLS = ("pytest", "pytest-xdist", "hypothesis", "fsspec", "packaging")
# The checkout must not be found, nor an environment that is active around the check.
HIDDEN = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PYTHONDONTWRITEBYTECODE")


class CommandFailed(Exception):
    """A command in an environment failed; its text says which, and what it printed."""


@dataclass(frozen=True)
class Environment:
    """A virtual environment of one Python, for the lowest or the highest versions."""

    folder: Path
    python_version: str
    lowest: bool

    @property
    def name(self) -> str:
        """Return "Python 3.12, lowest" or the like."""
        return f"Python {self.python_version}, {'lowest' if self.lowest else 'highest'}"

    def make(self, python: Path) -> None:
        """Make the environment anew."""
        self._call([python, "-m", "venv", "--clear", self.folder], self.folder.parent)

    def install(self, *packages: str) -> None:
        """Install packages at the lowest versions that are claimed, or at the highest."""
        held = ["--constraint", LOWEST] if self.lowest else ["--upgrade"]
        quiet = ("-q", "--disable-pip-version-check", "--no-compile")
        self.run("python", "-m", "pip", "install", *quiet, *held, *packages, cwd=self.folder)

    def run(self, program: str, *arguments: str | Path, cwd: Path, fails: bool = False) -> str:
        """Run a program of the environment, and return what it printed.

        Raises:
            CommandFailed: it failed, or did not although `fails` is set.
        """
        return self._call([self.folder / "bin" / program, *arguments], cwd, fails)

    def type_in(self, line: str, cwd: Path) -> str:
        """Run a line of the shell where the environment is active, and return what it printed.

        Raises:
            CommandFailed: it failed.
        """
        return self._call(["sh", "-c", line], cwd)

    def _call(self, command: Sequence[str | Path], cwd: Path, fails: bool = False) -> str:
        settings = {k: v for k, v in os.environ.items() if k not in HIDDEN}
        settings |= {"COLUMNS": "100", "PYTHONUTF8": "1"}
        settings["PATH"] = os.pathsep.join([str(self.folder / "bin"), os.environ["PATH"]])
        done = subprocess.run(
            command, cwd=cwd, env=settings, text=True, check=False, capture_output=True
        )  # fmt: skip
        if (done.returncode != 0) != fails:
            text = " ".join(map(str, command))
            raise CommandFailed(f"{text}\nexit status {done.returncode}\n{done.stdout[-6000:]}"
                                f"{done.stderr[-6000:]}")  # fmt: skip
        return done.stderr if fails else done.stdout

    def check_core(self, wheel: Path, tests: Sequence[str]) -> str:
        """Install the wheel by itself, then with its command line; run the core's tests.

        Returns:
            The last line of pytest.
        """
        self.install(str(wheel))
        self.run("python", "-m", "pip", "check", cwd=self.folder)
        where = self.run("python", "-c", "import skipstone as s; print(s.__file__, s.__version__)",
                         cwd=self.folder)  # fmt: skip
        assert where.split() == [str(self._package() / "__init__.py"), version()], where
        missing = self.run("skipstone", "--help", cwd=self.folder, fails=True)
        assert "skipstone[cli]" in missing, missing
        self.install(f"{wheel}[cli]", *TEST_TOOLS)
        assert self.run("skipstone", "--version", cwd=self.folder).strip().endswith(version())
        told = self.run("python", "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider",
                        "--durations=0", "--durations-min=60", *tests, cwd=ROOT)  # fmt: skip
        return told.strip().splitlines()[-1]

    def _package(self) -> Path:
        return self.folder / "lib" / f"python{self.python_version}" / "site-packages/skipstone"


def has(environment: Environment, package: str) -> bool:
    """Return True if a package can be imported in the environment."""
    code = f"import importlib.util as u; print(u.find_spec({package!r}) is not None)"
    return environment.run("python", "-c", code, cwd=environment.folder).strip() == "True"


def say(text: str) -> None:
    """Print a line of progress at once."""
    print(text, file=sys.stderr, flush=True)
