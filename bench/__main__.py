"""`python -m bench [WORKLOAD ...]`: measure beside other engines, print, check the requirements."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.compare import compare
from bench.markdown import BEGIN, END, README, markdown, replace_block
from bench.plots import draw
from bench.report import Options
from bench.results import FOLDER, LATEST, as_json, load, machine, save
from bench.show import show
from bench.workloads import USUAL, WORKLOADS

ABOUT = "\n".join(
    f"  {name:<12}{(run.__doc__ or '').splitlines()[0]}" for name, run in WORKLOADS.items()
)
COMMANDS = f"""workloads (those of a usual run: {", ".join(USUAL)}):
{ABOUT}

other commands:
  python -m bench compare OLD NEW    show what got slower by more than the spread; exit with 1 if
                                     Skipstone did
  python -m bench table [RESULTS]    print the figures as Markdown
  python -m bench plot [RESULTS]     draw the figures next to the results

OLD, NEW and RESULTS are files that --json or --save wrote. RESULTS defaults to
bench/{FOLDER.name}/{LATEST.name}. Answers are compared before anything is timed. Engines that are
not installed are listed as absent.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return 1 if a requirement fails or Skipstone got slower, else 0."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given and given[0] in ("compare", "table", "plot"):
        return _command(given[0], given[1:])
    options = argparse.ArgumentParser(
        prog="python -m bench",
        description=__doc__,
        epilog=COMMANDS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    options.add_argument(
        "workload",
        nargs="*",
        help="what to measure (default: a usual run; all with --full)",
    )
    options.add_argument(
        "--full", action="store_true", help="use large sizes, more rounds, more contestants"
    )
    options.add_argument("--rounds", type=int, help="the rounds of each workload")
    options.add_argument(
        "--containers",
        type=int,
        default=Options.containers,
        help="the most containers (default: 10 million)",
    )
    options.add_argument("--json", type=Path, metavar="FILE", help="write the figures to FILE")
    options.add_argument(
        "--save",
        action="store_true",
        help=f"write the figures to bench/{FOLDER.name}/{LATEST.name}, the plots next to it, and "
        f"the table to {README.name}",
    )
    asked = options.parse_args(given)
    for name in asked.workload:
        if name not in WORKLOADS:
            options.error(f"no workload is named {name!r}; expected any of {', '.join(WORKLOADS)}")
    if asked.containers < 1000:
        options.error(f"--containers is {asked.containers}; expected at least 1,000")
    if asked.rounds is not None and asked.rounds < 1:
        options.error(f"--rounds is {asked.rounds}; expected at least 1")
    names = asked.workload or (WORKLOADS if asked.full else USUAL)
    return _measure(
        list(names), Options(asked.full, asked.rounds, asked.containers), asked.json, asked.save
    )


def _measure(names: list[str], options: Options, json: Path | None, keep: bool) -> int:
    where = machine()
    print(
        f"{where['processor']}, {where['cpus']} CPUs, {where['threads']} threads, "
        f"Python {where['python']}, load {where['load']}, {where['date']}"
    )
    measured, met = {}, True
    for name in names:
        report = WORKLOADS[name](options)
        show(name, report)
        measured[name] = as_json(report, options, machine())
        met &= all(q.met for q in report.requirements)
    if json is not None:
        save(json, where, measured)
        print(f"\nwritten: {json}")
    if keep:
        # Workloads that did not run now keep their older figures. The order is that of WORKLOADS.
        found = {**(load(LATEST)["workloads"] if LATEST.exists() else {}), **measured}
        save(LATEST, where, {name: found[name] for name in WORKLOADS if name in found})
        results = load(LATEST)
        written = [LATEST, *([README] if replace_block(README, markdown(results)) else [])]
        try:
            written += draw(results, FOLDER)
        except ImportError as e:
            print(f"no plots: {e}; pip install 'skipstone[bench]'")
        print("\nwritten: " + ", ".join(path.name for path in written))
    return 0 if met else 1


def _command(name: str, given: list[str]) -> int:
    about = {
        "compare": "Show what got slower by more than the spread: each run's median lies beyond "
        "nine tenths of the other's rounds, and they differ by 10 %.",
        "table": f"Print the figures as Markdown. `--save` writes it between {BEGIN} and {END} in "
        f"{README.name}, if these lines exist.",
        "plot": "Draw the figures: time over n, share of the read bandwidth, peers.",
    }
    options = argparse.ArgumentParser(prog=f"python -m bench {name}", description=about[name])
    if name == "compare":
        options.add_argument("old", type=Path, help="earlier results")
        options.add_argument("new", type=Path, help="later results")
    else:
        options.add_argument("results", type=Path, nargs="?", default=LATEST)
    if name == "plot":
        options.add_argument(
            "--to", type=Path, metavar="FOLDER", help="output folder (default: that of the results)"
        )
    asked = options.parse_args(given)
    try:
        if name == "compare":
            found = compare(load(asked.old), load(asked.new))
            print(found)
            return 1 if found.worse else 0
        results = load(asked.results)
    except (OSError, ValueError) as e:
        options.error(str(e))
    if name == "table":
        print(markdown(results))
    else:
        print(
            "written: "
            + ", ".join(path.name for path in draw(results, asked.to or asked.results.parent))
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
