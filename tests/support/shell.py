"""The shell's command, run in this process."""

import contextlib
import io
import subprocess
import sys
from unittest import mock

from skipstone.bindings.shell.main import main


def run(*args):
    """Run the command in this process, which has the imports already."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        mock.patch.object(sys, "argv", ["skipstone", *args]),
    ):
        try:
            main()
        except SystemExit as e:
            code = e.code
    return subprocess.CompletedProcess(args, code, out.getvalue(), err.getvalue())
