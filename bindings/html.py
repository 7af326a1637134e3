"""Self-contained HTML, light and dark, for reports, notebooks and pictures of tables."""

from __future__ import annotations

from html import escape as escape  # the one way to put text into a page
from typing import Final

# Verdicts differ in lightness as well as in hue, so that they can be told apart without colour.
# --c0 to --c7 tell conjuncts apart, and keep away from the hues of verdicts.
LIGHT: Final = """
  --page: #ffffff; --text: #1f2328; --faint: #59636e; --line: #d1d9e0; --panel: #f6f8fa;
  --never: #c3c9d0; --limit: #8a94a0; --maybe: #d97706; --always: #15803d;
  --accent: #2563eb; --warn: #b91c1c;
  --c0: #5b8ac6; --c1: #9a7cc0; --c2: #4fa8a3; --c3: #c57590; --c4: #7d8bd4; --c5: #9d8a6c;
  --c6: #5c7f99; --c7: #b08ab0;
  color-scheme: light;
"""
DARK: Final = """
  --page: #0d1117; --text: #e6edf3; --faint: #9198a1; --line: #3d444d; --panel: #151b23;
  --never: #4b535d; --limit: #79828d; --maybe: #f59e0b; --always: #4ade80;
  --accent: #60a5fa; --warn: #f87171;
  --c0: #5f93d3; --c1: #a487cf; --c2: #45a39e; --c3: #cc7896; --c4: #7f8edb; --c5: #a39274;
  --c6: #668ba6; --c7: #b58fb5;
  color-scheme: dark;
"""
# Light colours first; a dark system or a dark notebook replaces them, and a light notebook on a
# dark system puts them back. JupyterLab and VS Code say on <body> which they are; the page's
# background is theirs then. Notebooks have rules for tables that are stronger than a class: they
# would stripe our rows in colours of their own, and align our text to the right.
STYLE: Final = f"""
.skipstone {{ {LIGHT}
  color: var(--text); background: var(--page);
  font: 14px/1.5 system-ui, -apple-system, "Segoe UI", sans-serif;
}}
@media (prefers-color-scheme: dark) {{ .skipstone {{ {DARK} }} }}
[data-jp-theme-light="true"] .skipstone, .vscode-light .skipstone {{ {LIGHT} }}
[data-jp-theme-light="false"] .skipstone, .vscode-dark .skipstone {{ {DARK} }}
[data-jp-theme-light] .skipstone, .vscode-light .skipstone, .vscode-dark .skipstone {{
  background: none;
}}
.skipstone .wide {{ overflow-x: auto; }}
.skipstone tr {{ background: none !important; }}
.skipstone table {{
  border-collapse: collapse; font: inherit; font-variant-numeric: tabular-nums; margin: 4px 0;
  color: inherit;
}}
.skipstone th, .skipstone td {{
  border: 0; border-bottom: 1px solid var(--line); padding: 2px 16px 2px 0;
  text-align: left !important; background: none; color: inherit; vertical-align: baseline;
}}
.skipstone th {{ font-weight: 600; color: var(--faint); }}
.skipstone td.number, .skipstone th.number {{ text-align: right !important; white-space: nowrap; }}
.skipstone code, .skipstone pre {{
  font: 13px/1.45 ui-monospace, "SFMono-Regular", Menlo, Consolas, "DejaVu Sans Mono", monospace;
  color: inherit; background: none; padding: 0; margin: 0;
}}
.skipstone pre {{ white-space: pre-wrap; overflow-wrap: anywhere; word-break: normal; }}
.skipstone .faint {{ color: var(--faint); }}
.skipstone .warn {{ color: var(--warn); }}
"""


def fragment(body: str) -> str:
    """Return HTML for a notebook's cell: the body with its style, which affects nothing else.

    Args:
        body: HTML; text in it has gone through `escape`.
    """
    return f'<div class="skipstone" style="padding: 4px 8px"><style>{STYLE}</style>{body}</div>'


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
        # Browsers ask for an icon unless a page brings one.
        '<link rel="icon" href="data:,">\n'
        f"<title>{escape(title)}</title>\n<style>body {{ margin: 0; }}"
        f"{STYLE}.skipstone.page {{ min-height: 100vh; padding: 24px; box-sizing: border-box; }}"
        f'{style}</style></head>\n<body class="skipstone page">\n{body}\n'
        f"{f'<script>{script}</script>' if script else ''}</body>\n</html>\n"
    )
