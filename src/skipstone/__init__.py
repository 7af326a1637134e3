"""Skipstone finds the files and row groups that can hold a matching row, from statistics.

There are three floors: `ir` defines what a predicate means, `kernels` turns that into machine code,
and `bindings` connects both to Python, tables and Spark. Names are imported at first use.
"""

from __future__ import annotations

import importlib
import os
import sys
import types
from typing import TYPE_CHECKING, Any

# Its fork hooks must exist before any thread imports the rest, because a fork may come in between.
from skipstone.kernels.run import forks as _forks  # noqa: F401
from skipstone.kernels.run.first_import import first_import

if TYPE_CHECKING:
    cache_dir: str | os.PathLike[str] | None
    from skipstone.bindings.filters.collector import (
        DynamicFilterCollector as DynamicFilterCollector,
    )
    from skipstone.bindings.filters.data import DynamicFilterData as DynamicFilterData
    from skipstone.bindings.filters.data import DynamicFilteringEvent as DynamicFilteringEvent
    from skipstone.bindings.filters.filter import DynamicFilter as DynamicFilter
    from skipstone.bindings.joins.join import join as join
    from skipstone.bindings.joins.join import join_explained as join_explained
    from skipstone.bindings.plans.enumerator import Split as Split
    from skipstone.bindings.plans.enumerator import SplitEnumerator as SplitEnumerator
    from skipstone.bindings.plans.plan import Plan as Plan
    from skipstone.bindings.plans.table_protocol import DataSize as DataSize
    from skipstone.bindings.plans.work import Work as Work
    from skipstone.bindings.predicates.expr import Expr as Expr
    from skipstone.bindings.predicates.expr import call as call
    from skipstone.bindings.predicates.expr import col as col
    from skipstone.bindings.predicates.expr import lit as lit
    from skipstone.bindings.predicates.many import prune_many as prune_many
    from skipstone.bindings.predicates.predicate import PruningPredicate as PruningPredicate
    from skipstone.bindings.predicates.register import register_function as register_function
    from skipstone.bindings.shards.shards import Shards as Shards
    from skipstone.bindings.shards.verdicts import ShardVerdicts as ShardVerdicts
    from skipstone.bindings.statistics.statistics import PruningStatistics as PruningStatistics
    from skipstone.bindings.statistics.statistics import Statistics as Statistics
    from skipstone.bindings.tables.delta.table import DeltaTable as DeltaTable
    from skipstone.bindings.tables.delta.table import scan_delta as scan_delta
    from skipstone.bindings.tables.hive.table import HiveTable as HiveTable
    from skipstone.bindings.tables.hive.table import scan_hive as scan_hive
    from skipstone.bindings.tables.iceberg.table import IcebergTable as IcebergTable
    from skipstone.bindings.tables.iceberg.table import scan_iceberg as scan_iceberg
    from skipstone.bindings.tables.parquet.table import ParquetTable as ParquetTable
    from skipstone.bindings.tables.parquet.table import scan_parquet as scan_parquet
    from skipstone.bindings.tables.scan import scan as scan
    from skipstone.ir.errors import AmbiguousColumn as AmbiguousColumn
    from skipstone.ir.errors import BackendMissing as BackendMissing
    from skipstone.ir.errors import DeviceError as DeviceError
    from skipstone.ir.errors import DynamicFilterError as DynamicFilterError
    from skipstone.ir.errors import PredicateError as PredicateError
    from skipstone.ir.errors import PredicateSyntaxError as PredicateSyntaxError
    from skipstone.ir.errors import PredicateTooDeep as PredicateTooDeep
    from skipstone.ir.errors import SkipstoneError as SkipstoneError
    from skipstone.ir.errors import SkipstoneWarning as SkipstoneWarning
    from skipstone.ir.errors import SourceError as SourceError
    from skipstone.ir.errors import StaleFile as StaleFile
    from skipstone.ir.errors import StatisticsError as StatisticsError
    from skipstone.ir.errors import UnknownColumn as UnknownColumn
    from skipstone.ir.errors import UnknownFunction as UnknownFunction
    from skipstone.ir.errors import UnsupportedForm as UnsupportedForm
    from skipstone.ir.guarantee import LiteralGuarantee as LiteralGuarantee
    from skipstone.ir.outcome import Verdict as Verdict
    from skipstone.kernels.config import config as config
    from skipstone.kernels.run.pool import set_threads as set_threads
    from skipstone.kernels.settings import ProgressEvent as ProgressEvent

__version__ = "0.1.0"

_HOMES = {
    "bindings.filters.collector": ("DynamicFilterCollector",),
    "bindings.filters.data": ("DynamicFilterData", "DynamicFilteringEvent"),
    "bindings.plans.enumerator": ("Split", "SplitEnumerator"),
    "bindings.filters.filter": ("DynamicFilter",),
    "bindings.joins.join": ("join", "join_explained"),
    "bindings.predicates.expr": ("Expr", "call", "col", "lit"),
    "bindings.predicates.many": ("prune_many",),
    "bindings.plans.plan": ("Plan",),
    "bindings.plans.table_protocol": ("DataSize",),
    "bindings.predicates.predicate": ("PruningPredicate",),
    "bindings.predicates.register": ("register_function",),
    "bindings.tables.scan": ("scan",),
    "bindings.shards.shards": ("Shards",),
    "bindings.shards.verdicts": ("ShardVerdicts",),
    "bindings.tables.delta.table": ("DeltaTable", "scan_delta"),
    "bindings.tables.hive.table": ("HiveTable", "scan_hive"),
    "bindings.tables.iceberg.table": ("IcebergTable", "scan_iceberg"),
    "bindings.tables.parquet.table": ("ParquetTable", "scan_parquet"),
    "bindings.statistics.statistics": ("PruningStatistics", "Statistics"),
    "bindings.plans.work": ("Work",),
    "ir.errors": (
        "AmbiguousColumn",
        "BackendMissing",
        "DeviceError",
        "DynamicFilterError",
        "PredicateError",
        "PredicateSyntaxError",
        "PredicateTooDeep",
        "SkipstoneError",
        "SkipstoneWarning",
        "SourceError",
        "StaleFile",
        "StatisticsError",
        "UnknownColumn",
        "UnknownFunction",
        "UnsupportedForm",
    ),
    "kernels.config": ("config",),
    "kernels.run.pool": ("set_threads",),
    "kernels.settings": ("ProgressEvent",),
    "ir.guarantee": ("LiteralGuarantee",),
    "ir.outcome": ("Verdict",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "AmbiguousColumn",
    "BackendMissing",
    "DataSize",
    "DeltaTable",
    "DeviceError",
    "DynamicFilter",
    "DynamicFilterCollector",
    "DynamicFilterData",
    "DynamicFilterError",
    "DynamicFilteringEvent",
    "Expr",
    "HiveTable",
    "IcebergTable",
    "LiteralGuarantee",
    "ParquetTable",
    "Plan",
    "PredicateError",
    "PredicateSyntaxError",
    "PredicateTooDeep",
    "ProgressEvent",
    "PruningPredicate",
    "PruningStatistics",
    "ShardVerdicts",
    "Shards",
    "SkipstoneError",
    "SkipstoneWarning",
    "SourceError",
    "Split",
    "SplitEnumerator",
    "StaleFile",
    "Statistics",
    "StatisticsError",
    "UnknownColumn",
    "UnknownFunction",
    "UnsupportedForm",
    "Verdict",
    "Work",
    "call",
    "col",
    "config",
    "join",
    "join_explained",
    "lit",
    "prune_many",
    "register_function",
    "scan",
    "scan_delta",
    "scan_hive",
    "scan_iceberg",
    "scan_parquet",
    "set_threads",
]


def __getattr__(name: str) -> Any:
    if name in ("polars", "spark"):  # separate modules, imported only on request
        return importlib.import_module(f"skipstone.{name}")
    home = _HOME_OF.get(name)
    if home is None:
        opens = name.startswith(("read", "open", "load", "scan_"))
        way_out = "; skipstone.scan(path) opens a table of any format" if opens else ""
        raise AttributeError(
            f"module 'skipstone' has no attribute {name!r}{way_out}",
            name=name,
            obj=sys.modules[__name__],
        )
    first_import(f"skipstone.{home}")
    value = globals()[name] = getattr(importlib.import_module(f"skipstone.{home}"), name)
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__", "cache_dir", "polars", "spark"]


class _Package(types.ModuleType):
    @property
    def cache_dir(self) -> str | None:
        """The setting `config.statistics_cache_dir`.

        A folder in which the statistics of tables whose logs were read are saved for other
        processes. None, the default, saves nothing.
        """
        from skipstone.bindings.statistics.store.folder import cache_dir

        return cache_dir()

    @cache_dir.setter
    def cache_dir(self, folder: str | os.PathLike[str] | None) -> None:
        from skipstone.bindings.statistics.store.folder import set_cache_dir

        set_cache_dir(folder)


sys.modules[__name__].__class__ = _Package
