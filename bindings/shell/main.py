"""Entry point of the `skipstone` command."""

from __future__ import annotations

import atexit
import gc
import os
import sys
import threading
from typing import Final

from skipstone.ir.errors import SkipstoneError, UnknownColumn

# Shells take quotes away: -w 'city = 'Oslo'' arrives as city = Oslo.
QUOTES: Final = """put text in single quotes: --where "city = 'Oslo'\""""


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
        text = f"{type(e).__name__}: {e}"
        print(f"skipstone: {text}", file=sys.stderr)
        if isinstance(e, UnknownColumn) and _may_be_text(text):
            print(f"skipstone: {QUOTES}", file=sys.stderr)
        sys.exit(2)


def run() -> None:
    """Run the command line, and end the process without taking its modules down.

    That takes Python 0.1 s after NumPy and pyarrow were imported. If a thread is left, or the
    output cannot be written, the process ends as usual.
    """
    gc.set_threshold(20_000)  # most objects of a command are its modules', which stay
    code: str | int | None = 0
    try:
        main()
    except SystemExit as e:
        code = e.code
    if not isinstance(code, str) and threading.active_count() == 1:
        atexit._run_exitfuncs()
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        except OSError:  # the reader of a pipe has gone
            sys.exit(code)
        os._exit(code or 0)
    sys.exit(code)


def _may_be_text(error: str) -> bool:
    """Return True if a condition names a column that is like no other, and not in backquotes."""
    return "predicate names" in error and "Did you mean" not in error and "`" not in error


if __name__ == "__main__":
    run()
