"""The lakes of `rows`: TPC-H lineitem as Parquet files in several layouts, in Delta and Iceberg.

They are made once and kept in a folder: 2 GB at scale 1, in minutes.
"""

from __future__ import annotations

import shutil
import subprocess
import sysconfig
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from bench.report.results import CHECKOUT
from bench.rows.lake import Kind, Lake
from bench.tables.lake_data import as_delta, as_iceberg

Order = Literal["l_shipdate", "l_orderkey"]
MONEY: Final = pa.decimal128(15, 2)
SCHEMA: Final = pa.schema(
    [
        ("l_orderkey", pa.int64()),
        ("l_partkey", pa.int64()),
        ("l_suppkey", pa.int64()),
        ("l_linenumber", pa.int32()),
        ("l_quantity", MONEY),
        ("l_extendedprice", MONEY),
        ("l_discount", MONEY),
        ("l_tax", MONEY),
        ("l_returnflag", pa.string()),
        ("l_linestatus", pa.string()),
        ("l_shipdate", pa.date32()),
        ("l_commitdate", pa.date32()),
        ("l_receiptdate", pa.date32()),
        ("l_shipinstruct", pa.string()),
        ("l_shipmode", pa.string()),
        ("l_comment", pa.string()),
    ]
)
FOLDER: Final = CHECKOUT / "bench-data"
GROUP: Final = 1 << 20  # rows in a row group, if the file has as many
COMPLETE: Final = "complete"  # a file that marks a folder that was written completely


@dataclass(frozen=True)
class Layout:
    """A lake to write.

    Attributes:
        name: The printed name, with which the command line chooses it.
        kind: The lake's format.
        files: The number of files.
        order: The column that the rows ascend in. tpchgen-cli writes them by order key.
        indexes: True if the files have page indexes.
        rows: How many rows to take, evenly spread; None takes all.
    """

    name: str
    kind: Kind
    files: int
    order: Order
    indexes: bool = False
    rows: int | None = None


def layouts(files: int = 64, table_files: int = 256) -> tuple[Layout, ...]:
    """Return the layouts of all lakes, with as many files in a folder and in a table."""
    orders: tuple[tuple[str, int, Order], ...] = (
        ("one", 1, "l_shipdate"),
        ("sorted", files, "l_shipdate"),
        ("orders", files, "l_orderkey"),
    )
    parquet = (
        Layout(f"{name}{'+pages' if indexes else ''}", "Parquet", n, order, indexes)
        for name, n, order in orders
        for indexes in (False, True)
    )
    return (
        *parquet,
        Layout("delta", "Delta", table_files, "l_shipdate"),
        Layout("iceberg", "Iceberg", table_files, "l_shipdate"),
    )


class Data:
    """TPC-H lineitem at one scale, in a folder that is kept."""

    def __init__(self, folder: Path, scale: float = 1) -> None:
        self.folder = folder.resolve() / f"lineitem-{scale:g}"
        self.scale = scale

    @property
    def original(self) -> Path:
        """The file that tpchgen-cli wrote."""
        return made(self.folder / "original", self._generate) / "lineitem.parquet"

    def lake(self, layout: Layout) -> Lake:
        """Return a lake, made if it is not there."""
        folder = made(
            self.folder / f"{layout.name}-{layout.files}",
            lambda folder: _write(read(self.original), layout, folder),
        )
        files = tuple(str(path) for path in sorted((folder / "data").glob("*.parquet")))
        source = str(folder / "data")
        if layout.kind == "Iceberg":
            source = (folder / "metadata.txt").read_text()
        return Lake(layout.kind, str(folder / "data"), source, files)

    def _generate(self, folder: Path) -> None:
        tool = shutil.which("tpchgen-cli", path=sysconfig.get_path("scripts"))
        if tool is None:
            raise ImportError("tpchgen-cli is not installed", name="tpchgen-cli")
        subprocess.run(
            [
                *(tool, "parquet", f"--scale-factor={self.scale:g}", "--tables=lineitem"),
                *(f"--output-dir={folder}", "--quiet", "--no-progress"),
            ],
            check=True,
        )


def made(folder: Path, make: Callable[[Path], None]) -> Path:
    """Return a folder that is complete; make it if it is not."""
    mark = folder / COMPLETE
    if not mark.exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        make(folder)
        mark.touch()
    return folder


def read(path: Path, columns: tuple[str, ...] | None = None) -> pa.Table:
    """Read the original file in the types of `SCHEMA`: tpchgen-cli's texts are string views."""
    names = columns or tuple(SCHEMA.names)
    schema = pa.schema([SCHEMA.field(name) for name in names])
    return pq.read_table(path, columns=list(names)).cast(schema)


def _write(table: pa.Table, layout: Layout, folder: Path) -> None:
    if layout.rows is not None:
        table = table.take(list(range(0, table.num_rows, -(-table.num_rows // layout.rows))))
    if layout.order != "l_orderkey":
        table = table.sort_by(layout.order)
    (folder / "data").mkdir()
    step = -(-table.num_rows // layout.files)
    paths = [folder / "data" / f"part-{i:05}.parquet" for i in range(layout.files)]
    for i, path in enumerate(paths):
        pq.write_table(
            table.slice(i * step, step),
            path,
            row_group_size=GROUP,
            write_page_index=layout.indexes,
        )
    if layout.kind == "Delta":
        as_delta(folder / "data")
    if layout.kind == "Iceberg":
        (folder / "metadata.txt").write_text(str(as_iceberg(folder / "catalog", paths, SCHEMA)))
