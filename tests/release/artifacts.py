"""What is released: the wheel and the sdist, and what their metadata must say."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
import zipfile
from email import message_from_bytes
from email.message import Message
from pathlib import Path

from packaging.metadata import Metadata

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def version() -> str:
    """Return the version that src/skipstone/__init__.py says, its only home."""
    text = (ROOT / "src" / "skipstone" / "__init__.py").read_text(encoding="utf-8")
    (found,) = re.findall(r'^__version__ = "([^"]+)"', text, re.MULTILINE)
    return found


def build(target: Path) -> tuple[Path, Path]:
    """Build the sdist, and the wheel from the sdist, in isolation; return (wheel, sdist)."""
    subprocess.run(
        [sys.executable, "-m", "build", "--outdir", target, ROOT], check=True, stdout=sys.stderr
    )
    (wheel,), (sdist,) = target.glob("*.whl"), target.glob("*.tar.gz")
    return wheel, sdist


def metadata(wheel: Path) -> Message:
    """Return the core metadata of a wheel.

    Raises:
        ExceptionGroup: a field is not as the specification of core metadata has it.
    """
    with zipfile.ZipFile(wheel) as z:
        (name,) = [n for n in z.namelist() if n.endswith(".dist-info/METADATA")]
        text = z.read(name)
    Metadata.from_email(text, validate=True)
    return message_from_bytes(text)


def metadata_faults(found: Message) -> list[str]:
    """Return what is wrong with a wheel's metadata: one line for each fault."""
    readme = found.get_payload()
    assert isinstance(readme, str)
    urls = dict(url.split(", ", 1) for url in found.get_all("Project-URL", []))
    relative = re.findall(r"\]\((?!https://|#)[^)]*\)", readme)
    faults = {
        f"Version is {found['Version']}; expected {version()}": found["Version"] != version(),
        f"the readme has relative links: {relative}": bool(relative),
        "the readme is not Markdown": found["Description-Content-Type"] != "text/markdown",
        "the readme is empty": "# Skipstone" not in readme,
        f"Project-URL has {sorted(urls)}": not {"Source", "Documentation", "Changelog"}
        <= set(urls),
        f"Requires-Python is {found['Requires-Python']}": found["Requires-Python"]
        != PROJECT["requires-python"],
    }
    return [text for text, wrong in faults.items() if wrong]


def changelog_faults(text: str, wanted: str) -> list[str]:
    """Return what the changelog lacks: a section of the version, with an entry."""
    section = re.search(
        rf"^## {re.escape(wanted)}\b[^\n]*\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL
    )
    if section is None:
        return [f"CHANGELOG.md has no section '## {wanted}'"]
    return [] if re.search(r"^- ", section[1], re.MULTILINE) else [f"'## {wanted}' has no entry"]
