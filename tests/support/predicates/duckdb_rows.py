"""Evaluate predicates in DuckDB."""

import re

SPARK_STRING = re.compile(r"(\bX)?'((?:[^'\\]|\\.)*)'", re.S)


def in_duckdb(sql: str) -> str:
    """Return Spark SQL, as `predicates.py` and `rewritten` write it, in DuckDB's dialect."""

    def string(m):
        if m[1]:
            return "'" + re.sub("..", r"\\x\g<0>", m[2]) + "'::BLOB"
        return "'" + re.sub(r"\\(.)", r"\1", m[2], flags=re.S).replace("'", "''") + "'"

    sql = SPARK_STRING.sub(string, sql)
    sql = re.sub(r"(LIKE '(?:[^']|'')*')(?! ESCAPE)", r"\1 ESCAPE '\\'", sql)
    sql = re.sub(
        r"(?<![\w.'])(-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)([FD])\b",
        lambda m: f"CAST('{m[1]}' AS {'FLOAT' if m[2] == 'F' else 'DOUBLE'})",
        sql,
    )
    return (
        sql.replace("TIMESTAMP_NTZ", "TIMESTAMP")
        .replace(" <=> ", " IS NOT DISTINCT FROM ")
        .replace(" IS UNKNOWN", " IS NULL")
        .replace(" IS NOT UNKNOWN", " IS NOT NULL")
        .replace("! (", "NOT (")
    )
