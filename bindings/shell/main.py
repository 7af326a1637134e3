"""Entry point of the `skipstone` command."""

from __future__ import annotations

import atexit
import codecs
import gc
import io
import os
import re
import sys
import threading
import warnings
from typing import Final, TextIO

from skipstone.ir.errors import SkipstoneError, SkipstoneWarning, UnknownColumn

# Shells take quotes away: -w 'city = 'Oslo'' arrives as city = Oslo.
QUOTES: Final = """put text in single quotes: --where "city = 'Oslo'\""""
# What precedes a value, and a bare word.
BARE_WORD: Final = re.compile(r"(?:[=<>]|\b(?:IN\s*\(|LIKE\s))\s*[^\W\d]", re.IGNORECASE)
# Arguments of Python that an error names -> the options that set them.
OPTIONS: Final = {
    "version=": "--at", "snapshot_id=": "--at", "columns=": "--column", "order_by": "--order-by",
    "order_by=": "--order-by", "limit=": "--limit",
    "storage_options=": "--storage-option", "storage_options= or filesystem=": "--storage-option",
}  # fmt: skip
# They begin an error, or stand among its words; the folders of a path are never followed by these.
ARGUMENT: Final = re.compile(
    r"^(?:columns=|order_by)(?= )|(?<=\bby )(?:order_by|limit)=(?= \(line )"
    r"|(?<![\w/])(?:version|snapshot_id)=(?=[' ])"
    r"|(?<![\w/])storage_options=(?: or filesystem=)?(?=$|[ ;,])"
)
# What we print beyond ASCII -> its form where the encoding lacks it.
PLAIN: Final = {"├": "|", "└": "`", "│": "|", "─": "-", "→": "->", "…": "...", "–": "-"}


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
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            app()
    except SkipstoneError as e:
        text = f"{type(e).__name__}: {_with_options(str(e))}"
        print(f"skipstone: {text}", file=sys.stderr)
        if isinstance(e, UnknownColumn) and _may_be_text(text):
            print(f"skipstone: {QUOTES}", file=sys.stderr)
        sys.exit(2)


def run() -> None:
    """Run the command line, and end the process without taking its modules down.

    That takes Python 0.1 s after NumPy and pyarrow were imported. If a thread is left, or the
    output cannot be written, the process ends as usual.
    """
    _open_closed_streams()
    _print_in_any_encoding()
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


def _with_options(error: str) -> str:
    """Return an error with the names of options in place of those of arguments.

    Example:
        >>> _with_options("columns= names 'q'; the schema has 'x'.")
        "--column names 'q'; the schema has 'x'."
        >>> _with_options("/t: version='new'; expected a number")
        "/t: --at 'new'; expected a number"
    """

    def option(found: re.Match[str]) -> str:
        value = "" if found.string[found.end() :][:1] in ("", " ", ";", ",") else " "
        return OPTIONS[found[0]] + value

    return ARGUMENT.sub(option, error)


def _may_be_text(error: str) -> bool:
    """Return True if a condition names a column that is like no other, and has a bare value.

    The condition stands below the message.
    """
    message, _, condition = error.partition("\n")
    unlike = "predicate names" in message and "Did you mean" not in message
    return unlike and "`" not in error and BARE_WORD.search(condition) is not None


def _show_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int,
    file: TextIO | None = None, line: str | None = None,
) -> None:  # fmt: skip
    """Print a warning of our own as the errors are, and any other as Python does."""
    if issubclass(category, SkipstoneWarning):
        print(f"skipstone: {message}", file=sys.stderr)
    else:
        (file or sys.stderr).write(
            warnings.formatwarning(message, category, filename, lineno, line)
        )


def _open_closed_streams() -> None:
    """Open standard streams that the caller has closed, so that no file takes their place.

    Without standard error, Python prints errors on standard output.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115


def _print_in_any_encoding() -> None:
    """Let standard output print in plain characters what its encoding lacks."""
    codecs.register_error("skipstone.plain", _plainly)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="skipstone.plain")


def _plainly(error: UnicodeError) -> tuple[str, int]:
    """Return plain characters for those that an encoding lacks, as codecs ask for them."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    plain = (
        PLAIN.get(ch) or ch.encode("ascii", errors="backslashreplace").decode() for ch in lacking
    )
    return "".join(plain), error.end


if __name__ == "__main__":
    run()
