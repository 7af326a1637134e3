"""Find out which row groups Polars reads, from the messages of its Parquet reader.

`python -m bench.power.polars` answers in a process of its own, because Polars reads POLARS_VERBOSE
once.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import re
import subprocess
import sys
from decimal import Decimal
from typing import Final

from bench.power.answers import Answer, NoSuchForm, Questions, path_of, reason
from bench.power.files import GROUPS

MARK: Final = "====== question "


def polars(questions: Questions) -> list[Answer | str]:
    """Read what the Parquet reader prints with POLARS_VERBOSE.

    Polars reads that variable once, so it runs in a process of its own.
    """
    todo = [
        (form.text("polars"), str(path_of(table, group)), table.partitioned)
        for form, table, group in questions
    ]
    environment = {**os.environ, "POLARS_VERBOSE": "1", "PYTHONUNBUFFERED": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "bench.power.polars"],
        input=json.dumps(todo),
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    printed = done.stderr.split(MARK)[1:]
    out: list[Answer | str] = []
    for (_, table, group), found, text in zip(
        questions, json.loads(done.stdout), printed, strict=True
    ):
        groups = GROUPS if table.path.is_file() and group is None else 1
        out.append(
            found
            if isinstance(found, str)
            else Answer(_read(text, groups), frozenset(found), False)
        )
    return out


def _read(printed: str, groups_of_a_file: int) -> int:
    """Return the number of row groups that Polars reads: its readers, less what they skip."""
    readers = printed.count("[ParquetFileReader]: project: ")
    chosen = re.findall(r"Predicate pushdown: reading (\d+) / (\d+) row groups", printed)
    return sum(int(n) for n, _ in chosen) + (readers - len(chosen)) * groups_of_a_file


def _polars_child() -> None:
    """Answer the questions on standard input; the parent reads standard error."""
    import polars as pl

    def ask(text: str, path: str, partitioned: bool) -> list[int]:
        if not text:
            raise NoSuchForm
        names = {
            "pl": pl,
            "date": dt.date,
            "datetime": dt.datetime,
            "UTC": dt.UTC,
            "Decimal": Decimal,
        }
        condition = eval(text, names) if "pl." in text else pl.sql_expr(text)
        source = f"{path}/**/*.parquet" if os.path.isdir(path) else path
        rows = (
            pl.scan_parquet(source, hive_partitioning=partitioned)
            .filter(condition)
            .collect(engine="streaming")
        )
        return sorted(set(rows["g"].to_list()))

    out: list[list[int] | str] = []
    for question in json.load(sys.stdin):
        print(MARK, file=sys.stderr, flush=True)
        try:
            out.append(ask(*question))
        except BaseException as e:  # PanicException does not derive from Exception
            out.append(reason(e))
    json.dump(out, sys.stdout)


if __name__ == "__main__":
    _polars_child()
