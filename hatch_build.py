"""The readme of the package: README.md with absolute links, as a package index shows it."""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

# Links and images whose target is a file of the repository: neither a URL nor an anchor.
RELATIVE = re.compile(r"(!?)(\[[^\]]*\])\((?!\w+:|#)([^)\s]+)\)")


def absolute_links(text: str, source: str) -> str:
    """Return Markdown whose links into the repository at the URL `source` are absolute.

    >>> absolute_links("[hive](docs/tables.md#hive) ![](a.svg) [x](#x)", "U")
    '[hive](U/blob/main/docs/tables.md#hive) ![](U/raw/main/a.svg) [x](#x)'
    """

    def absolute(link: re.Match[str]) -> str:
        kind = "raw" if link[1] else "blob"
        return f"{link[1]}{link[2]}({source}/{kind}/main/{link[3]})"

    return RELATIVE.sub(absolute, text)


class Readme(MetadataHookInterface):
    """Sets the readme to README.md with absolute links."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the readme to the project's metadata."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": absolute_links(text, metadata["urls"]["Source"]),
        }
