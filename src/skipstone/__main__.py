"""`python -m skipstone` runs the command line."""

from skipstone.bindings.shell.main import run

run()
