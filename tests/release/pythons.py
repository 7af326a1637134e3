"""Find the Pythons of this machine that Skipstone supports."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

SUPPORTED = ("3.11", "3.12", "3.13", "3.14")


def find(wanted: Sequence[str] = SUPPORTED) -> dict[str, Path]:
    """Return the interpreter of each wanted version that is on PATH, or kept by pyenv."""
    found = {}
    for version in wanted:
        for path in _candidates(version):
            if _version(path) == version:
                found[version] = path
                break
    return found


def _candidates(version: str) -> Iterator[Path]:
    yield Path(sys.executable)
    on_path = shutil.which(f"python{version}")
    if on_path is not None:
        yield Path(on_path)
    if shutil.which("pyenv") is not None:
        root = subprocess.run(["pyenv", "root"], capture_output=True, text=True, check=False)
        yield from sorted(Path(root.stdout.strip(), "versions").glob(f"{version}.*/bin/python"))


def _version(python: Path) -> str | None:
    """Return "3.12" or the like; None if the interpreter does not start."""
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        told = subprocess.run(
            [python, "-c", code], capture_output=True, text=True, timeout=60, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return told.stdout.strip()
