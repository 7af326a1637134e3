"""Benchmarks: `python -m bench` from a checkout. Answers are compared before anything is timed.

A workload is a function of `Options` that returns a `Report`. A report has rows and notes for
people. For programs it has one `Timed` for each contestant, the peers that are missing, and the
requirements.

    measure.py   time contestants in turn, beside the read bandwidth or a yardstick in each round
    report.py    the options and the report of a workload
    results.py   reports as JSON, with the machine and the versions of each workload's own run
    show.py      print tables
    compare.py   compare two files of results: find what got slower by more than the spread
    markdown.py  write a file of results as Markdown, and the block of README.md
    plots.py     draw a file of results as PNG
    peers.py     other engines over statistics in memory, for any list of tests

- A new workload: a function in a file of its own, and a line in `WORKLOADS` (workloads.py).
- A new contestant: for engines over arrays, a line in `PEERS` (peers.py); for variants of
  Skipstone, in `OWN_RUNS` (scaling.py) or in `Own.runs` (ranges.py); for files, in the tuple of its
  `Task` (files/). One that cannot do a task is an entry of the task's `absent`, with the reason.
- A new requirement: a `Requirement` in the workload's report. It is printed, saved, and part of the
  exit code and of the tables.
"""
