"""Make the tables of TPC-H and TPC-DS at scale 1, as files of a lake: sorted by time, or unsorted.

DuckDB's extensions make the rows and the queries. They are packages for one version of DuckDB, and
get an environment of their own in bench-data.
"""

from __future__ import annotations

import json
import subprocess
import venv
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from bench.rows.data import FOLDER, made

VERSION: Final = "1.5.5"  # of DuckDB
PACKAGES: Final = [
    f"{name}=={VERSION}" for name in ("duckdb", "duckdb-extension-tpch", "duckdb-extension-tpcds")
]
# The large tables: the column of time that a lake is sorted by, and the number of files.
LARGE: Final = {
    "tpch": {"lineitem": ("l_shipdate", 120), "orders": ("o_orderdate", 40)},
    "tpcds": {
        "store_sales": ("ss_sold_date_sk", 64),
        "catalog_sales": ("cs_sold_date_sk", 48),
        "web_sales": ("ws_sold_date_sk", 24),
        "inventory": ("inv_date_sk", 24),
        "store_returns": ("sr_returned_date_sk", 16),
        "catalog_returns": ("cr_returned_date_sk", 12),
        "web_returns": ("wr_returned_date_sk", 8),
    },
}
MAKE: Final = """
import importlib.util, json, sys
from pathlib import Path
import duckdb

name, folder = sys.argv[1], Path(sys.argv[2])
package = Path(importlib.util.find_spec(f"duckdb_extension_{name}").origin).parent
con = duckdb.connect(config={"allow_unsigned_extensions": True})
con.execute(f"LOAD '{next(package.rglob('*.duckdb_extension'))}'")
con.execute("CALL dbgen(sf=1)" if name == "tpch" else "CALL dsdgen(sf=1)")
queries = con.execute(f"SELECT query_nr, query FROM {name}_queries() ORDER BY 1").fetchall()
for (table,) in con.execute("SELECT table_name FROM duckdb_tables()").fetchall():
    con.execute(f"COPY {table} TO '{folder}/{table}.parquet' (ROW_GROUP_SIZE 1000000)")
(folder / "queries.json").write_text(json.dumps(queries))
"""


def queries_of(name: str) -> dict[str, str]:
    """Return the queries of a benchmark by their numbers, as "Q1", in Spark's dialect."""
    found = json.loads((_original(name) / "queries.json").read_text())
    return {f"Q{number}": _for_spark(text.strip().rstrip(";")) for number, text in found}


def _for_spark(text: str) -> str:
    """Return a query of DuckDB's; in it, names are quoted as Spark does not quote them."""
    if '"' not in text:
        return text
    import sqlglot

    return str(sqlglot.transpile(text, read="duckdb", write="spark")[0])


def lake_of(name: str, *, ordered: bool) -> Path:
    """Return the folder with a folder for each table.

    Args:
        name: "tpch" or "tpcds".
        ordered: True if the large tables are sorted by time; otherwise their rows are in no order.
    """

    def make(folder: Path) -> None:
        for path in sorted(_original(name).glob("*.parquet")):
            column, files = LARGE[name].get(path.stem, ("", 1))
            _write(path, folder / path.stem, column if ordered else "", files)

    return made(FOLDER / f"{name}-{'sorted' if ordered else 'unsorted'}", make)


def _original(name: str) -> Path:
    """Return the folder of the tables as DuckDB makes them, one file each."""

    def make(folder: Path) -> None:
        subprocess.run([str(_duckdb()), "-c", MAKE, name, str(folder)], check=True)

    return made(FOLDER / name, make)


def _duckdb() -> Path:
    """Return the Python of an environment with DuckDB and the extensions."""

    def make(folder: Path) -> None:
        venv.create(folder, with_pip=True)
        python = folder / "bin" / "python"
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", *PACKAGES], check=True)

    return made(FOLDER / f"duckdb-{VERSION}", make) / "bin" / "python"


def _write(source: Path, target: Path, column: str, files: int) -> None:
    target.mkdir(parents=True, exist_ok=True)
    table = pq.read_table(source)
    if column:
        table = table.sort_by(column)
    elif files > 1:
        order = np.random.default_rng(7).permutation(table.num_rows)
        table = table.take(pa.array(order))
    bounds: npt.NDArray[np.int64] = np.linspace(0, table.num_rows, files + 1).astype(np.int64)
    for i in range(files):
        part = table.slice(bounds[i], bounds[i + 1] - bounds[i])
        pq.write_table(part, target / f"{i:03}.parquet", row_group_size=1 << 20)
