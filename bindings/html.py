"""Self-contained HTML, light and dark, for reports, notebooks and pictures of tables."""

from __future__ import annotations

from html import escape as escape  # the one way to put text into a page
from typing import Final

# Light colours first; a dark system or a dark notebook replaces them. Verdicts differ in lightness
# as well as in hue, so that they can be told apart without colour.
STYLE: Final = """
.skipstone {
  --page: #ffffff; --text: #1f2328; --faint: #59636e; --line: #d1d9e0; --panel: #f6f8fa;
  --never: #c8ccd1; --maybe: #d97706; --always: #15803d; --accent: #2563eb; --warn: #b91c1c;
  color: var(--text); background: var(--page); color-scheme: light;
  font: 14px/1.5 system-ui, -apple-system, "Segoe UI", sans-serif;
}
@media (prefers-color-scheme: dark) { .skipstone {
  --page: #0d1117; --text: #e6edf3; --faint: #9198a1; --line: #3d444d; --panel: #151b23;
  --never: #4b535d; --maybe: #f59e0b; --always: #4ade80; --accent: #60a5fa; --warn: #f87171;
  color-scheme: dark;
} }
.skipstone table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
.skipstone th, .skipstone td {
  border-bottom: 1px solid var(--line); padding: 2px 12px 2px 0; text-align: left;
}
.skipstone td.number, .skipstone th.number { text-align: right; }
.skipstone code, .skipstone pre { font: 13px/1.45 ui-monospace, Menlo, Consolas, monospace; }
.skipstone .faint { color: var(--faint); }
.skipstone .warn { color: var(--warn); }
"""


def fragment(body: str) -> str:
    """Return HTML for a notebook's cell: the body with its style, which affects nothing else.

    Args:
        body: HTML; text in it has gone through `escape`.
    """
    return f'<div class="skipstone"><style>{STYLE}</style>{body}</div>'


def document(title: str, body: str, *, style: str = "", script: str = "") -> str:
    """Return a whole page, which loads nothing from the network.

    Args:
        title: The page's title, as text.
        body: HTML; text in it has gone through `escape`.
        style: More CSS.
        script: JavaScript that runs once the body is there.
    """
    return (
        '<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>body {{ margin: 0; }}"
        f"{STYLE}.skipstone.page {{ min-height: 100vh; padding: 24px; box-sizing: border-box; }}"
        f'{style}</style></head>\n<body class="skipstone page">\n{body}\n'
        f"{f'<script>{script}</script>' if script else ''}</body>\n</html>\n"
    )
