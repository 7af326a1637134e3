"""Random joins in Spark: a pruned join returns the rows of Spark's own.

`python -m tests.fuzz.spark_joins --cases N`
"""

import argparse
import os
import random
import tempfile
from functools import reduce
from operator import and_

import pyarrow as pa
import pyarrow.parquet as pq

import skipstone as ss
from skipstone.ir.node import quoted_name
from skipstone.spark import prune_join, pruned
from tests.support.joins.dynamic import KINDS, PARTNERS, Random, table
from tests.support.spark.reads import rows_of

HOWS = ("inner", "inner", "semi", "anti", "left", "right", "full")
TYPES = [k for k in KINDS if not k.endswith("ns")]  # Spark reads no nanoseconds
NAMES = ("k0", "a b", "x.y`z")


def written(r, make, probe, names, folder):
    """Write a fact table of a few files, and return their number.

    It is sorted in most cases, so that bounds rule out more.
    """
    rows = table(make.rows(probe, 30), probe, names)
    if r.random() < 0.7 and probe[0] != "boolean":
        rows = rows.sort_by(names[0])
    rows = rows.append_column("row", pa.array(range(rows.num_rows), pa.int64()))
    step, count = r.randint(1, 6), 0
    for at in range(0, max(rows.num_rows, 1), step):
        part = rows.slice(at, step)
        place = f"{folder}/p={at // step % 3}" if r.partitioned else folder
        os.makedirs(place, exist_ok=True)
        pq.write_table(
            part,
            f"{place}/{at} [f].parquet",
            row_group_size=r.choice([1, 2, 100]),
            write_statistics=r.random() < 0.9,
        )
        count += 1
    return count


def dimension(spark, r, make, build, folder):
    """Return a few rows of keys, some of them twice: from a file, or in memory."""
    rows = make.rows(build, 6)
    rows += r.sample(rows, min(2, len(rows)))
    keys = table(rows, build, [f"d{i}" for i in range(len(build))]).append_column(
        "w", pa.array(range(len(rows)), pa.int64())
    )
    pq.write_table(keys, f"{folder}/dim.parquet")
    dim = spark.read.parquet(f"{folder}/dim.parquet")
    if r.random() < 0.2:
        dim = dim.repartition(3).limit(100)  # may give other rows when it is computed again
    return dim.where("w % 3 < 2") if r.random() < 0.4 else dim


def facts(spark, r, folder):
    """Return the fact table as a DataFrame, and in the form that `prune_join` gets."""
    frame = spark.read.parquet(folder)
    kind = r.random()
    if kind < 0.5:
        return frame, frame
    if kind < 0.8 or r.partitioned:
        return frame, folder
    scan = ss.scan_parquet(folder)
    paths = [
        path for path, groups in scan.row_groups_of(scan.plan().kept).items() for _ in groups or [0]
    ]
    scan.statistics.save_shards(
        f"{folder} shards", rows=3, about=pa.table({"path": pa.array(paths, pa.string())})
    )
    return frame, ss.Shards.open(f"{folder} shards")


def case(spark, seed):
    """Run one random join; return the number of skipped files, and of all files."""
    r = random.Random(seed)
    r.partitioned = r.random() < 0.25
    make, width = Random(r), r.choice([1, 1, 1, 2, 2, 3])
    probe = [r.choice(TYPES) for _ in range(width)]
    build = [
        k if r.random() < 0.5 else r.choice([p for p in PARTNERS[k] if p in TYPES]) for k in probe
    ]
    names, how, side, safe = (
        NAMES[:width],
        r.choice(HOWS),
        r.choice(["left", "left", "right"]),
        r.random() < 0.25,
    )
    with tempfile.TemporaryDirectory() as folder:
        files = written(r, make, probe, names, f"{folder}/fact")
        dim, (frame, given) = (
            dimension(spark, r, make, build, folder),
            facts(spark, r, f"{folder}/fact"),
        )
        where = r.choice(
            [
                None,
                None,
                "row % 2 = 0",
                f"{quoted_name(names[0])} IS NOT NULL",
                "row > 6 OR row IS NULL",
            ]
        )
        limits = r.choice(
            [{}, {}, {"max_values": r.randint(1, 4)}, {"threshold": r.randint(1, 60)}]
        )
        fact = frame if where is None else frame.where(where)
        parts = [(fact[quoted_name(a)], dim[f"d{i}"]) for i, a in enumerate(names)]
        by = reduce(and_, (a.eqNullSafe(b) if safe else a == b for a, b in parts))
        on = {a: f"d{i}" for i, a in enumerate(names)}
        if given is frame and r.random() < 0.4:
            given, where, on = fact, None, by if r.random() < 0.5 else by & (fact.row > dim.w)
            by = on
        plain = fact.join(dim, by, how) if side == "left" else dim.join(fact, by, how)
        label = (seed, how, side, safe, probe, build, where, limits, str(on))
        joined = prune_join(given, dim, on, how, side=side, where=where, null_safe=safe, **limits)
        assert rows_of(joined) == rows_of(plain), (*label, str(pruned(joined)))
        assert joined.columns == plain.columns, label
        found = pruned(joined)[0 if side == "left" else -1]
        return (files - found.kept if found.keys and found.kept is not None else 0), files


def run(spark, seeds):
    """Run cases; return their number, the skipped files, and all files."""
    done, out, total = 0, 0, 0
    for seed in seeds:
        try:
            a, b = case(spark, seed)
        except AssertionError:
            raise
        except Exception as e:
            raise AssertionError((seed, repr(e)[:2000])) from e
        done, out, total = done + 1, out + a, total + b
    return done, out, total


if __name__ == "__main__":
    from skipstone.spark import session
    from tests.support.spark.session import CONFIG

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=500)
    parser.add_argument("--first", type=int, default=0)
    given = parser.parse_args()
    done, out, total = run(
        session(CONFIG, master="local[2]", name="joins"),
        range(given.first, given.first + given.cases),
    )
    print(f"{done} joins in Spark, {out} of {total} files not opened, no row lost")
