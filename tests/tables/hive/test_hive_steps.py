"""Random histories of a table: no plan loses a row when files are added, changed and removed.

Snapshots and `_metadata` files are written in between.
"""

import os
import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skipstone as ss
from tests.support.tables.lazy import OLD, write

TYPES = {
    "x": (pa.int32(), pa.int64()),
    "f": (pa.float32(), pa.float64()),
    "s": (pa.string(),),
    "n": (pa.struct([("a", pa.int32())]), pa.struct([("a", pa.int64()), ("b", pa.string())])),
}
WHERE = [
    "x = {0}", "x > {0} AND k = {1}", "f >= {0} OR k IS NULL", "s = 's{0}'",
    "s IS NULL AND k <> {1}", "n.a < {0}", "n.a IS NULL", "NOT (x = {0} OR k = {1})",
    "k IN (1, {1}) AND f > 2", "x IS NULL OR s LIKE 's1%'", "x <=> NULL",
    "f = CAST('NaN' AS DOUBLE)",
]  # fmt: skip


def value(r, kind):
    if r.random() < 0.2:
        return None
    if pa.types.is_struct(kind):
        return {f.name: value(r, f.type) for f in kind}
    if pa.types.is_floating(kind):
        return r.choice((float("nan"), -0.0, float(r.randint(0, 9))))
    return f"s{r.randint(0, 30)}" if pa.types.is_string(kind) else r.randint(0, 30)


def some_table(r):
    n = r.randint(0, 9)
    columns = {c: r.choice(kinds) for c, kinds in TYPES.items() if c == "x" or r.random() < 0.8}
    return pa.table(
        {c: pa.array([value(r, kind) for _ in range(n)], kind) for c, kind in columns.items()}
    )


class History:
    """A table in a folder, changed in random steps."""

    def __init__(self, root, seed):
        self.root, self.r, self.age = root, random.Random(seed), 0

    def files(self):
        return sorted(p for p in self.root.rglob("*.parquet"))

    def add(self):
        k = self.r.choice(("1", "2", "3", "__HIVE_DEFAULT_PARTITION__"))
        self.put(self.root / f"k={k}" / f"{self.r.randint(0, 3)}.parquet")

    def change(self):
        self.put(self.r.choice(self.files()))

    def put(self, path):
        bloom = {"bloom_filter_options": {"s": True}} if self.r.random() < 0.3 else {}
        table = some_table(self.r)
        write(
            path,
            table,
            age=self.age,
            row_group_size=self.r.randint(1, 4),
            **(bloom if "s" in table.column_names else {}),
        )

    def drop(self):
        self.r.choice(self.files()).unlink()

    def rename(self):
        (self.root / "k=1").mkdir(exist_ok=True)
        self.r.choice(self.files()).rename(self.root / "k=1" / f"r{self.age}.parquet")

    def save(self):
        self.r.choice((ss.scan_parquet, ss.scan_hive))(self.root).save_stats()

    def summarise(self):
        footers = [(p, pq.read_metadata(p)) for p in self.files()]
        same = [(p, m) for p, m in footers if m.schema.equals(footers[0][1].schema)]
        for p, m in same:
            m.set_file_path(str(p.relative_to(self.root)))
        pq.write_metadata(
            same[0][1].schema.to_arrow_schema(), self.root / "_metadata", [m for _, m in same]
        )
        os.utime(self.root / "_metadata", (OLD + self.age, OLD + self.age))

    def step(self):
        self.age += 1
        few = len(self.files()) < 3
        self.r.choice(
            [self.add]
            if few
            else [
                self.add,
                self.add,
                self.change,
                self.drop,
                self.rename,
                self.save,
                self.save,
                self.summarise,
            ]
        )()

    def judge(self):
        k = {"k": pa.int32()}
        plain = ss.scan_parquet(self.root, partition_schema=k, stats=False, use_metadata=False)
        lazy, eager = (
            ss.scan_hive(self.root, partition_schema=k, schema=plain.schema),
            ss.scan_parquet(self.root, partition_schema=k),
        )
        assert eager.schema.equals(plain.schema)
        columns = {f"{c} ": c in plain.schema.names for c in ("f", "s")} | {
            "n.a": "n" in plain.schema.names
        }
        for form in (
            w
            for w in self.r.sample(WHERE, 4)
            if all(present for c, present in columns.items() if c in w)
        ):
            where = form.format(self.r.randint(0, 30), self.r.randint(1, 3))
            expected = plain.plan(where).unpruned().to_arrow()
            for table in (plain, eager, lazy):
                plan = table.plan(where)
                assert repr(plan.to_arrow().to_pylist()) == repr(expected.to_pylist()), (
                    where,
                    table,
                )
                assert plan.count() == len(expected), (where, table)


@pytest.mark.parametrize("seed", range(2))
def test_no_plan_loses_a_row(tmp_path, seed):
    history = History(tmp_path, seed)
    for i in range(10):
        history.step()
        if i > 2:
            history.judge()
