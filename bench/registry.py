"""The workloads by name. Each takes `Options` and returns a `Report`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from bench.files import files
from bench.first.first import first
from bench.power.power import power
from bench.report.report import Options, Report
from bench.rows.computed import computed
from bench.rows.kinds import kinds
from bench.rows.remote import remote
from bench.rows.rows import rows
from bench.spark.driver import driver
from bench.spark.shards import shards
from bench.spark.spark_joins import spark_joins
from bench.spark.spark_reads import spark_reads
from bench.spark.tpc import tpcds, tpcds_s3, tpch, tpch_s3
from bench.spark.tpc_delta import tpcds_delta
from bench.statistics.cold import compiling
from bench.statistics.gpu import gpu
from bench.statistics.ingest import ingest
from bench.statistics.kernels import kernels, many
from bench.statistics.latency import latency
from bench.statistics.levels import growth, levels
from bench.statistics.membership import membership
from bench.statistics.ranges import narrow, ranges, wide
from bench.statistics.scaling import scaling
from bench.statistics.stored import stored
from bench.tables.advise import advise
from bench.tables.delta import delta
from bench.tables.dynamic import dynamic
from bench.tables.handover import handover
from bench.tables.hive import hive
from bench.tables.iceberg import iceberg
from bench.tables.lakes import lakes
from bench.tables.requests import requests

WORKLOADS: Final[Mapping[str, Callable[[Options], Report]]] = {
    "kernels": kernels,
    "many": many,
    "levels": levels,
    "growth": growth,
    "stored": stored,
    "ranges": ranges,
    "wide": wide,
    "narrow": narrow,
    "ingest": ingest,
    "scaling": scaling,
    "membership": membership,
    "latency": latency,
    "first": first,
    "compile": compiling,
    "files": files,
    "delta": delta,
    "hive": hive,
    "iceberg": iceberg,
    "lakes": lakes,
    "dynamic": dynamic,
    "advise": advise,
    "power": power,
    "rows": rows,
    "computed": computed,
    "kinds": kinds,
    "remote": remote,
    "handover": handover,
    "requests": requests,
    "gpu": gpu,
    "shards": shards,
    "spark_reads": spark_reads,
    "spark_joins": spark_joins,
    "driver": driver,
    "tpch": tpch,
    "tpcds": tpcds,
    "tpch_s3": tpch_s3,
    "tpcds_s3": tpcds_s3,
    "tpcds_delta": tpcds_delta,
}
USUAL: Final = (
    "kernels",
    "many",
    "levels",
    "growth",
    "stored",
    "ingest",
    "ranges",
    "scaling",
    "latency",
    "compile",
    "files",
    "delta",
    "hive",
    "iceberg",
    "lakes",
    "dynamic",
)
