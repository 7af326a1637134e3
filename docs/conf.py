"""Build the site: `make docs`. Pages are plain Markdown, and also read well in the repository."""

import re
import tomllib
from pathlib import Path

import skipstone

_PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]

project = "Skipstone"
author = "the authors of Skipstone"
version = release = skipstone.__version__
html_title = f"Skipstone {version}"
html_theme = "furo"
html_copy_source = False
html_show_copyright = False
html_theme_options = {"navigation_with_keys": True}
exclude_patterns = ["_build"]
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
# Links to headings, as the repository shows them: tables.md#hive-folders.
myst_heading_anchors = 4
suppress_warnings = ["myst.header"]  # decisions go from the title to the third level
default_role = "code"  # docstrings write `x`
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_default_options = {"members": True, "undoc-members": False}
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
napoleon_custom_sections = [("Source", "notes")]


def _outside(app: object, page: str, source: list[str]) -> None:
    """Links to files outside of docs/ lead to the repository."""
    up = "../" * (page.count("/") + 1)
    home = f"{_PROJECT['urls']['Source']}/blob/main/"
    source[0] = re.sub(rf"\]\({re.escape(up)}(?!\.\.)([^)]+)\)", rf"]({home}\1)", source[0])


def setup(app: object) -> None:
    """Called by Sphinx."""
    app.connect("source-read", _outside)  # type: ignore[attr-defined]
