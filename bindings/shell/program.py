"""The program that holds all commands: their order, and how it ends if its output fails."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Iterator
from typing import Any, Final

import click

from skipstone.ir.errors import describe_error

# As shells report a process that a signal ended: 128 and the number of SIGINT, and of SIGPIPE.
INTERRUPTED, PIPE_CLOSED = 130, 141
# Errors of writing alone.
FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Program(click.Group):
    """Lists its commands in the order in which they are added, and ends as shells expect."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands."""
        return list(self.commands)

    def make_context(self, *args: Any, **others: Any) -> click.Context:
        """Read the options, and print help or the version if they ask for it."""
        with _ending():
            return super().make_context(*args, **others)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command."""
        with _ending():
            return super().invoke(ctx)


@contextlib.contextmanager
def _ending() -> Iterator[None]:
    """Write out what was printed; say so if that fails, or if the user interrupted the command.

    Raises:
        Exit: it ended so.
    """
    try:
        try:
            yield
        except click.exceptions.Exit:
            sys.stdout.flush()
            raise
        sys.stdout.flush()
    except KeyboardInterrupt:
        click.echo("\nskipstone: interrupted", err=True)
        raise click.exceptions.Exit(INTERRUPTED) from None
    except BrokenPipeError:
        _discard_output()
        raise click.exceptions.Exit(PIPE_CLOSED) from None
    except OSError as e:
        if e.errno not in FULL:
            raise
        _discard_output()
        why = f"the output cannot be written ({describe_error(e)}); send it to another place"
        print(f"skipstone: {why}", file=sys.stderr)
        raise click.exceptions.Exit(2) from None


def _discard_output() -> None:
    """Let nothing more be written to standard output, or else Python fails when it ends."""
    with open(os.devnull, "wb") as nothing:
        os.dup2(nothing.fileno(), sys.stdout.fileno())
