"""Entry point of the `skipstone` command."""

from __future__ import annotations

import sys

from skipstone.ir.errors import SkipstoneError


def main() -> None:
    """Run the command line.

    A `SkipstoneError` becomes one message on standard error and exit code 2.
    """
    try:
        from skipstone.bindings.shell.cli import app
    except ImportError as e:
        sys.exit(
            f'skipstone: the command line needs click and rich ({e}): pip install "skipstone[cli]"'
        )
    try:
        app()
    except SkipstoneError as e:
        print(f"skipstone: {type(e).__name__}: {e}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
