"""Find out which row groups an engine reads, from its own reports.

pyarrow and pyiceberg name the row groups. DuckDB, Polars, DataFusion and Spark count what they read
while they run the query, and the rows that they return show some of the groups.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from bench.power.answers import Answer, NoSuchForm, Questions, each, named, path_of, text_of
from bench.power.files import GROUPS, ROWS, Table
from bench.power.form import Form
from bench.power.polars import polars


def pyarrow(questions: Questions) -> list[Answer | str]:
    """Use `split_by_row_group(filter)` of fragments; `get_fragments(filter)` prunes folders."""
    number: dict[tuple[Path, int], int] = {}

    def ask(form: Form, table: Table, group: int | None) -> Answer:
        if form.arrow is None:
            raise NoSuchForm
        condition = form.arrow(pc.field, pc)
        data = ds.dataset(path_of(table, group), partitioning="hive" if table.partitioned else None)
        found = []
        for fragment in data.get_fragments(condition):
            for part in fragment.split_by_row_group(condition, data.schema):
                row_group = part.row_groups[0].id
                key = (Path(part.path), row_group)
                if key not in number:
                    number[key] = (
                        pq.ParquetFile(part.path)
                        .read_row_group(row_group, columns=["g"])["g"][0]
                        .as_py()
                    )
                found.append(number[key])
        return named(found)

    return each(questions, ask)


def duckdb(questions: Questions) -> list[Answer | str]:
    """Read `total_row_groups_scanned` from the query's profile."""
    import duckdb as engine

    con = engine.connect()
    con.execute("SET enable_profiling = 'no_output'; SET TimeZone = 'UTC'; SET threads = 1")

    def ask(form: Form, table: Table, group: int | None) -> Answer:
        path = path_of(table, group)
        source = f"{path}/**/*.parquet" if path.is_dir() else str(path)
        rows = con.execute(
            f"SELECT DISTINCT g FROM read_parquet('{source}') WHERE {text_of(form, 'duckdb')}"
        ).fetchall()
        profile = json.loads(con.get_profiling_information())
        return Answer(
            int(profile["query"]["total_row_groups_scanned"]), frozenset(r[0] for r in rows), False
        )

    return each(questions, ask)


def datafusion(questions: Questions) -> list[Answer | str]:
    """Read the metrics of EXPLAIN ANALYZE: row groups matched by bounds, then by bloom filters."""
    from datafusion import SessionConfig, SessionContext, col

    @cache
    def context(path: Path, partitioned: bool) -> Any:
        made = SessionContext(
            SessionConfig()
            .with_target_partitions(1)
            .set("datafusion.execution.collect_statistics", "true")
        )
        partitions = (
            [("p", pa.int64()), ("q", pa.string())] if partitioned and path.is_dir() else []
        )
        made.register_parquet("t", str(path), table_partition_cols=partitions)
        return made

    def ask(form: Form, table: Table, group: int | None) -> Answer:
        made = context(path_of(table, group), table.partitioned)
        query = f"SELECT g FROM t WHERE {text_of(form, 'datafusion')}"
        found = made.sql(query).select(col("g")).distinct().to_pydict()["g"]
        plan = "\n".join(made.sql(f"EXPLAIN ANALYZE {query}").to_pydict()["plan"])
        return Answer(
            _matched(plan, GROUPS if table.path.is_file() and group is None else 1),
            frozenset(found),
            False,
        )

    return each(questions, ask)


def _matched(plan: str, groups_of_a_file: int) -> int:
    """Return the number of row groups that DataFusion reads, from a plan with metrics."""
    if "DataSourceExec" not in plan or "file_type=parquet" not in plan:
        return 0  # the plan was folded to an empty relation
    counted = {
        name: [
            (int(a), int(b)) for a, b in re.findall(rf"{name}=(\d+) total → (\d+) matched", plan)
        ]
        for name in ("row_groups_pruned_statistics", "row_groups_pruned_bloom_filter")
    }
    bounds, blooms = (
        tuple(map(sum, zip(*pairs, strict=True))) if pairs else (0, 0) for pairs in counted.values()
    )
    if bounds[0] == 0:  # no filter reached the row groups
        pruned = sum(
            int(n) - int(m)
            for n, m in re.findall(
                r"files_ranges_pruned_statistics=(\d+) total → (\d+) matched", plan
            )
        )
        opened = sum(map(int, re.findall(r"files_opened=(\d+)", plan)))
        return max(opened - pruned, 0) * groups_of_a_file
    return blooms[1] if blooms[0] == bounds[1] else bounds[1]


def pyiceberg(questions: Questions) -> list[Answer | str]:
    """Ask `_InclusiveMetricsEvaluator` over a data file for each row group.

    pyiceberg itself makes the metrics from the footer.
    """
    import pyiceberg.io.pyarrow as made_by
    from pyiceberg.expressions import visitors
    from pyiceberg.expressions.parser import parse
    from pyiceberg.manifest import DataFile
    from pyiceberg.schema import assign_fresh_schema_ids

    @cache
    def files(groups: tuple[Path, ...]) -> Any:
        metadata = [pq.read_metadata(path) for path in groups]
        schema = assign_fresh_schema_ids(
            made_by._pyarrow_to_schema_without_ids(metadata[0].schema.to_arrow_schema())
        )
        # Full bounds, as the other engines have them; the default truncates texts to 16 characters.
        collectors = made_by.compute_statistics_plan(
            schema, {"write.metadata.metrics.default": "full"}
        )
        names = made_by.parquet_path_to_id_mapping(schema)
        metrics = [
            made_by.data_file_statistics_from_parquet_metadata(
                m, collectors, names
            ).to_serialized_dict()
            for m in metadata
        ]
        return schema, [DataFile.from_args(**m) for m in metrics]

    def ask(form: Form, table: Table, group: int | None) -> Answer:
        schema, data_files = files(table.groups)
        may_match = visitors._InclusiveMetricsEvaluator(
            schema, parse(text_of(form, "iceberg"))
        ).eval
        return named(i for i, f in enumerate(data_files) if group in (None, i) and may_match(f))

    return each(questions, ask)


def by_spark(session: Any) -> Callable[[Questions], list[Answer | str]]:
    """Count the rows from Spark's scan, and so its row groups, which have equally many rows.

    Dictionary filters are off: dictionaries are pages of each row group, not statistics.
    """
    session.conf.set("spark.sql.adaptive.enabled", "false")

    def ask(form: Form, table: Table, group: int | None) -> Answer:
        frame = session.read.option("parquet.filter.dictionary.enabled", "false").parquet(
            str(path_of(table, group))
        )
        query = frame.where(form.sql).select("g")
        found = frozenset(r[0] for r in query.collect())
        leaf = query._jdf.queryExecution().executedPlan().collectLeaves().apply(0)
        metric = leaf.metrics().get("numOutputRows")
        # Without a scan, the plan was folded to nothing.
        scanned = metric.get().value() if "scan parquet" in leaf.nodeName().lower() else 0
        return Answer(-(-scanned // ROWS), found, False)

    return lambda questions: each(questions, ask)


ENGINES: Final = {
    "pyarrow": pyarrow,
    "DuckDB": duckdb,
    "Polars": polars,
    "DataFusion": datafusion,
    "pyiceberg": pyiceberg,
}
