"""Run a Python program whose Spark sessions are all pruned.

    python -m skipstone.spark app.py ...
    spark-submit "$(python -m skipstone.spark)" app.py ...
    PYTHONSTARTUP="$(python -m skipstone.spark)" pyspark

Without arguments, `python -m skipstone.spark` prints the path of this file.
"""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Sequence


def run(arguments: Sequence[str]) -> None:
    """Enable pruning in all sessions, and run a program, if there is one.

    Args:
        arguments: The program and its arguments.
    """
    from skipstone.bindings.spark.automatic.new_sessions import enable_new_sessions

    program = next(iter(arguments), None)
    if program is not None and not os.path.isfile(program):
        sys.exit(f"{program}: there is no such program; expected a Python file")
    enable_new_sessions()
    if program is not None:
        sys.argv = list(arguments)
        sys.path[0] = os.path.dirname(os.path.abspath(program))
        runpy.run_path(program, run_name="__main__")


if __name__ == "__main__":
    # PySpark's shell runs this file where `spark` exists already, with arguments of its own.
    run([] if "spark" in globals() else sys.argv[1:])
