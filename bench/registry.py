"""The workloads by name. Each takes `Options` and returns a `Report`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from bench.cold import compiling
from bench.delta import delta
from bench.dynamic import dynamic
from bench.files import files
from bench.gpu import gpu
from bench.hive import hive
from bench.iceberg import iceberg
from bench.ingest import ingest
from bench.kernels import kernels, many
from bench.lakes import lakes
from bench.latency import latency
from bench.levels import growth, levels
from bench.membership import membership
from bench.power import power
from bench.ranges import narrow, ranges, wide
from bench.report import Options, Report
from bench.scaling import scaling
from bench.shards import shards
from bench.spark_joins import spark_joins
from bench.spark_reads import spark_reads
from bench.stored import stored

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
    "compile": compiling,
    "files": files,
    "delta": delta,
    "hive": hive,
    "iceberg": iceberg,
    "lakes": lakes,
    "dynamic": dynamic,
    "power": power,
    "gpu": gpu,
    "shards": shards,
    "spark_reads": spark_reads,
    "spark_joins": spark_joins,
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
