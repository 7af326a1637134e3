"""`python -m bench [WORKLOAD ...]`: measure, compare with other engines, check requirements."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from bench.registry import USUAL, WORKLOADS
from bench.report.compare import compare
from bench.report.markdown import (
    BEGIN,
    COMPARISON,
    END,
    FIGURES,
    README,
    comparison,
    highlights,
    markdown,
    replace_block,
)
from bench.report.plots import draw
from bench.report.report import Options
from bench.report.results import FOLDER, as_json, load, machine, save
from bench.report.show import show

PLOTS: Final = "plots"  # the folder within the results
ABOUT = "\n".join(
    f"  {name:<12}{(run.__doc__ or '').splitlines()[0]}" for name, run in WORKLOADS.items()
)
COMMANDS = f"""workloads (those of a usual run: {", ".join(USUAL)}):
{ABOUT}

other commands:
  python -m bench compare OLD NEW    show what got slower by more than the spread; exit with 1 if
                                     Skipstone did
  python -m bench table [RESULTS]    print the figures as Markdown
  python -m bench plot [RESULTS]     draw the figures, into a folder of the results

OLD, NEW and RESULTS are folders that --json or --save wrote, or git revisions for what they have in
bench/{FOLDER.name}. RESULTS defaults to that folder. Answers are compared before anything is timed.
Engines that are not installed are listed as absent.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return 1 if a requirement fails or Skipstone got slower, else 0."""
    # Fresh processes would compile the modules of an editable install again each time; pip has
    # compiled those of the other engines.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given and given[0] in ("compare", "table", "plot"):
        return _command(given[0], given[1:])
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description=__doc__,
        epilog=COMMANDS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "workload",
        nargs="*",
        help="what to measure (default: a usual run; all with --full)",
    )
    parser.add_argument(
        "--full", action="store_true", help="use large sizes, more rounds, more contestants"
    )
    parser.add_argument("--rounds", type=int, help="the rounds of each workload")
    parser.add_argument(
        "--containers",
        type=int,
        default=Options.containers,
        help="the most containers (default: 10 million)",
    )
    parser.add_argument(
        "--only",
        nargs="+",
        default=(),
        metavar="NAME",
        help="of `rows`, the lakes, questions, engines and parts to measure (default: all)",
    )
    parser.add_argument(
        "--json",
        type=Path,
        metavar="FOLDER",
        help="write the figures to FOLDER, a file for each workload",
    )
    parser.add_argument(
        "--save",
        action="store_true",
        help=f"write figures and plots to bench/{FOLDER.name}, tables to {README.name} and docs/",
    )
    args = parser.parse_args(given)
    for name in args.workload:
        if name not in WORKLOADS:
            parser.error(f"no workload is named {name!r}; expected any of {', '.join(WORKLOADS)}")
    if args.containers < 1000:
        parser.error(f"--containers is {args.containers}; expected at least 1,000")
    if args.rounds is not None and args.rounds < 1:
        parser.error(f"--rounds is {args.rounds}; expected at least 1")
    names = args.workload or (WORKLOADS if args.full else USUAL)
    return _measure(
        list(names),
        Options(args.full, args.rounds, args.containers, tuple(args.only)),
        args.json,
        args.save,
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
        save(json, measured)
        print(f"\nwritten: {', '.join(measured)}, to {json}")
    if keep:
        _keep(measured)
    return 0 if met else 1


def _keep(measured: Mapping[str, Any]) -> None:
    """Save results in bench/results; make the tables and plots of all that is there."""
    save(FOLDER, measured)
    results = load(FOLDER, WORKLOADS)
    written = [f"{name}.json" for name in measured]
    blocks = {README: highlights, FIGURES: markdown, COMPARISON: comparison}
    written += [path.name for path, text in blocks.items() if replace_block(path, text(results))]
    try:
        written += [path.name for path in draw(results, FOLDER / PLOTS)]
    except ImportError as e:
        print(f"no plots: {e}; pip install 'skipstone[bench]'")
    print("\nwritten: " + ", ".join(written))


def _command(name: str, given: list[str]) -> int:
    about = {
        "compare": "Show what got slower by more than the spread: each run's median lies beyond "
        "nine tenths of the other's rounds, and they differ by 10 %.",
        "table": f"Print the figures as Markdown. `--save` writes it between {BEGIN} and {END} in "
        f"{FIGURES.name}, and a few of them in {README.name}.",
        "plot": "Draw the figures: time over n, share of the read bandwidth, peers.",
    }
    parser = argparse.ArgumentParser(prog=f"python -m bench {name}", description=about[name])
    if name == "compare":
        parser.add_argument("old", help="earlier results")
        parser.add_argument("new", help="later results")
    else:
        parser.add_argument("results", nargs="?", default=str(FOLDER))
    if name == "plot":
        parser.add_argument(
            "--to",
            type=Path,
            metavar="FOLDER",
            help=f"output folder (default: {PLOTS} in the results; a revision needs one)",
        )
    args = parser.parse_args(given)
    try:
        if name == "compare":
            found = compare(load(args.old, WORKLOADS), load(args.new, WORKLOADS))
            print(found)
            return 1 if found.worse else 0
        results = load(args.results, WORKLOADS)
    except (OSError, ValueError) as e:
        parser.error(str(e))
    if name == "table":
        print(markdown(results))
    else:
        if args.to is None and not Path(args.results).is_dir():
            parser.error(f"{args.results} is no folder, so --to must name one")
        folder = args.to or Path(args.results) / PLOTS
        print("written: " + ", ".join(path.name for path in draw(results, folder)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
