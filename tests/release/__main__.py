"""`python -m tests.release`: check what would be released; `make release-check` calls it.

It builds the sdist and the wheel, checks their metadata and the changelog, and installs the wheel
in fresh environments: each supported Python of this machine, at the lowest and the highest versions
of the dependencies. There it runs the tests of the core, every command with --help, and the pages
that a newcomer reads, outside of the checkout.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.release import artifacts, pythons, signatures
from tests.release.environment import CommandFailed, Environment, say
from tests.release.pages import run_page

PAGES = ("README.md", "docs/tour.md")
COMMAND_LIST = "from skipstone.bindings.shell.cli import app; print(*app.commands)"


def main() -> int:
    """Run the checks; print a table of environments; return 1 if any failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.release", description=__doc__)
    parser.add_argument("--folder", type=Path, default=artifacts.ROOT / ".release")
    parser.add_argument("--python", nargs="+", default=pythons.SUPPORTED, metavar="3.12")
    parser.add_argument("--tests", nargs="+", default=[], help="test files of the core")
    parser.add_argument("--versions", nargs="+", default=["lowest", "highest"])
    args = parser.parse_args()
    folder = args.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    wheel, faults = _artifacts(folder)
    found = pythons.find(args.python)
    absent = [version for version in args.python if version not in found]
    tests = [str(Path(test)) for test in args.tests]
    rows = []
    data = folder / "data"  # the demo's data; no other file of the checkout is there
    data.mkdir(exist_ok=True)
    # The newest Python at the highest versions is first: it makes the data and has every extra.
    for lowest in (False, True):
        for version in sorted(found, key=lambda v: int(v.split(".")[1]), reverse=True):
            environment = Environment(
                folder / f"{version}-{'lowest' if lowest else 'highest'}", version, lowest
            )
            if environment.name.split(", ")[1] not in args.versions:
                continue
            extras = "demo,all" if not lowest and version == max(found) else "demo"
            rows.append(_check(environment, found[version], wheel, extras, tests, data))
    print(f"\nwheel {wheel.name}: {'; '.join(faults) or 'metadata and changelog are right'}")
    for name, ok, told in rows:
        print(f"{'pass' if ok else 'FAIL'}  {name:<22}{told}")
    for version in absent:
        print(f"none  Python {version}: not on this machine, not checked")
    return int(bool(faults) or not rows or not all(ok for _, ok, _ in rows))


def _artifacts(folder: Path) -> tuple[Path, list[str]]:
    """Build wheel and sdist; return the wheel, and what is wrong with it."""
    dist = folder / "dist"
    for old in dist.glob("*"):
        old.unlink()
    wheel, _ = artifacts.build(dist)
    try:
        faults = artifacts.metadata_faults(artifacts.metadata(wheel))
    except ExceptionGroup as group:
        faults = [str(e) for e in group.exceptions]
    text = (artifacts.ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    faults += artifacts.changelog_faults(text, artifacts.version())
    names = sorted(signatures.NAMES.read_text().split())
    if list(signatures.signatures(names)) != signatures.SIGNATURES.read_text().splitlines():
        faults.append("public signatures differ: python -m tests.release.signatures")
    return wheel, faults


def _check(
    environment: Environment, python: Path, wheel: Path, extras: str, tests: list[str], data: Path
) -> tuple[str, bool, str]:
    """Return the environment's name, whether all went well, and what ran or failed."""
    say(f"{environment.name} ...")
    try:
        environment.make(python)
        told = [environment.check_core(wheel, tests)]
        environment.install(f"{wheel}[{extras}]")
        environment.run("python", "-m", "pip", "check", cwd=data)
        names = environment.run("python", "-c", COMMAND_LIST, cwd=data).split()
        for name in names:
            environment.run("skipstone", name, "--help", cwd=data)
        if not (data / "demo-data").exists():
            environment.run("skipstone", "demo", cwd=data)
        told += [f"{len(names)} commands", *(run_page(environment, page, data) for page in PAGES)]
    except (CommandFailed, AssertionError) as e:
        say(f"{environment.name} FAILED: {e}")
        return environment.name, False, str(e).splitlines()[0]
    say(f"{environment.name}: {'; '.join(told)}")
    return environment.name, True, "; ".join(told)


if __name__ == "__main__":
    sys.exit(main())
