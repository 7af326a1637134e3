"""The modules in which faults are planted, and the tests that cover them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]


@dataclass(frozen=True)
class Target:
    """A module, how many of its faults are planted, and the tests that cover it."""

    module: str
    count: int
    tests: tuple[str, ...]
    spark: bool = False

    @property
    def path(self) -> Path:
        """The module's file, as Python names it in frames."""
        return ROOT / "src" / Path(*self.module.split(".")).with_suffix(".py")


def _of(names: str) -> tuple[str, ...]:
    """Return the paths of test files, wherever they lie below `tests`."""
    found = {path.stem: path for path in (ROOT / "tests").rglob("test_*.py")}
    return tuple(found[f"test_{name}"].relative_to(ROOT).as_posix() for name in names.split())


PLAN_TESTS: Final = (
    "plan_faults parquet order dynamic_plans dynamic_splits delta_plan work hive replanning "
    "stale_plans"
)
TARGETS: Final = {
    "plan": Target(
        "skipstone.bindings.plans.plan", 70, (*_of(PLAN_TESTS), "bindings/plans/plan.py")
    ),
    "selection": Target("skipstone.bindings.plans.selection", 40, _of(PLAN_TESTS)),
    "sql": Target(
        "skipstone.bindings.predicates.sql",
        70,
        (
            *_of("sql_faults sql sql_forms inputs bind like peer_bugs order"),
            "bindings/predicates/sql.py",
        ),
    ),
    "predicate": Target(
        "skipstone.bindings.predicates.predicate",
        50,
        (
            *_of(
                "predicate_faults statistics inputs many device_errors sql values conformance bind"
            ),
            "bindings/predicates/predicate.py",
        ),
    ),
    "source": Target("skipstone.bindings.predicates.source", 40, _of("inputs sql many hostile")),
    "evaluator": Target(
        "skipstone.bindings.predicates.evaluator",
        40,
        _of("statistics many device_errors evaluator_faults"),
    ),
    "enumerator": Target(
        "skipstone.bindings.plans.enumerator",
        60,
        (
            *_of("plan_faults dynamic_splits dynamic_conformance order"),
            "bindings/plans/enumerator.py",
        ),
    ),
    "prune": Target(
        "skipstone.bindings.spark.pruning.prune",
        40,
        _of(
            "prune_faults spark_prune spark_prune_columns spark_prune_connect spark_prune_queries "
            "spark_prune_predicates spark_prune_by_joins spark_star_document"
        ),
        spark=True,
    ),
}


def tests_of(target: Target) -> list[str]:
    """Return the files of a target's tests that are there."""
    return [t for t in target.tests if (ROOT / t).exists()]
