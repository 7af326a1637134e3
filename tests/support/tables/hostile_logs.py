"""Helpers for tests with hostile Delta logs."""

import skipstone as ss
from tests.support.tables.delta_log import Log, delta_schema


def table_of(tmp_path, ddl="x BIGINT", **options):
    """Create an empty table with these columns and return its log."""
    return Log(tmp_path / "t", delta_schema(ddl), **options)


def found(log, where, column="x", **settings):
    """Plan the table and return the matching rows' values of one column."""
    return ss.scan_delta(log.folder).plan(where, **settings).to_arrow().column(column).to_pylist()


ADD = {
    "path": "a.parquet",
    "partitionValues": {},
    "size": 1,
    "modificationTime": 1,
    "dataChange": True,
}
