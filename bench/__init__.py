"""Benchmarks: `python -m bench` from a checkout. Answers are compared before anything is timed.

A workload is a function of `Options` that returns a `Report`. A report has rows and notes for
people. For programs it has one `Timed` for each contestant, the peers that are missing, and the
requirements.

    registry.py   the workloads by name statistics/   workloads over statistics: in memory, on disk,
    on a GPU tables/       workloads over Delta, Hive and Iceberg tables, and joins files/
    `files`: planning and counting over real files, compared with other engines power/
    `power`: which row groups each engine skips, by form of predicate rows/         `rows`: from
    paths to rows, compared with other engines; `computed`: conditions
                  on computed values over rows in memory; `kinds`: nested columns, categories,
                  many folders, first rows
    spark/        workloads in a Spark session
    report/       everything that workloads share:
        measure.py   time contestants in turn, beside a reference such as a yardstick
        bandwidth.py the read bandwidth of the machine, the usual reference
        report.py    the options and the report of a workload
        results.py   a JSON file for each workload, with the machine and the versions of its run
        show.py      print tables
        compare.py   compare results of two runs: find what got slower by more than the spread
        markdown.py  write results as Markdown, and the block of README.md
        plots.py     draw results as PNG

- A new workload: a function in a file of its own, and a line in `WORKLOADS` (registry.py).
- A new contestant: for engines over arrays, a line in `PEERS` (statistics/peers.py); for variants
  of Skipstone, in `OWN_RUNS` (statistics/scaling.py) or in `Own.runs` (statistics/ranges.py); for
  files, in the tuple of its `Task` (files/). One that cannot do a task is an entry of the task's
  `absent`, with the reason.
- A new requirement: a `Requirement` in the workload's report. It is printed, saved, and part of the
  exit code and of the tables.
"""
