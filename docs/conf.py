"""Build the site: `make docs`. Pages are plain Markdown, and also read well in the repository."""

import skipstone

project = "Skipstone"
author = "the authors of Skipstone"
version = release = skipstone.__version__
html_title = f"Skipstone {version}"
html_theme = "furo"
html_copy_source = False
html_show_copyright = False
html_theme_options = {"source_repository": "", "navigation_with_keys": True}
exclude_patterns = ["_build"]
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
# Links to headings, as the repository shows them: tables.md#hive-folders.
myst_heading_anchors = 4
default_role = "code"  # docstrings write `x`
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_default_options = {"members": True, "undoc-members": False}
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_custom_sections = [("Source", "notes")]
