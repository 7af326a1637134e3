"""Measurements: `python -m bench` from a checkout. Nothing is timed before its answer was compared.

A workload is a function of `Options` that returns a `Report`: rows and notes for people, and for programs one `Timed`
for each contestant, the peers that took no part, and the requirements.

    measure.py   times contestants in turn, beside the read bandwidth or a yardstick in the same rounds
    report.py    what a workload is asked, and what it finds
    results.py   reports as JSON, with the machine and the versions of each workload's own run
    show.py      the tables that are printed
    compare.py   two files of results: what got slower by more than the spread
    markdown.py  one file of results as Markdown, and the block of README.md
    plots.py     one file of results as PNG
    peers.py     other engines over statistics in memory, for any list of tests

- A new workload: a function in a file of its own, and a line in `WORKLOADS` (workloads.py).
- A new contestant: a line in `PEERS` (peers.py) for engines over arrays, in `OWN_RUNS` (scaling.py) or in `Own.runs`
  (ranges.py) for Skipstone's own ways, in the tuple of its `Task` (files/) for files. One that cannot do a task is
  an entry of the task's `absent`, with the reason.
- A new requirement: a `Requirement` in the workload's report. It is printed, saved, part of the exit code and of the tables.
"""
