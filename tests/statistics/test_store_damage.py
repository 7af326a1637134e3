"""Damaged files of statistics give the same answers as before, or an error; never others."""

import base64
import os
import pickle
import random

import numpy as np
import pyarrow as pa
import pytest

import skipstone as ss
from skipstone.bindings.statistics.coerce_inputs import KEYS
from skipstone.bindings.statistics.store import layout
from tests.support.effort import LONG
from tests.support.statistics.saved import SCHEMA, TEXTS, answers, many, rewritten


@pytest.mark.parametrize(
    ("order_by", "step"), [(None, 4), ("s", 8)] if LONG else [(None, 13), ("s", 29)]
)
def test_no_changed_byte_changes_an_answer(order_by, step, tmp_path, small_blocks, eager):
    schema = pa.schema([("x", pa.int64()), ("s", pa.string())])
    x, letters = np.arange(70) * 2**40, [chr(97 + i % 26) for i in range(70)]
    columns = {
        "x": {"min": x, "max": x + 9, "null_count": [i % 3 for i in range(70)]},
        "s": {"min": letters, "max": letters},
    }
    stats = ss.Statistics.from_dict(columns, schema).index(7, order_by)
    predicates = [
        ss.PruningPredicate("x < 20000000000000 AND s > 'd' OR s = 'b' AND x IS NULL", schema)
    ]
    expected, path = answers(stats, predicates), tmp_path / "x.stats"
    stats.save(path)
    good, r, caught = path.read_bytes(), random.Random(3), 0
    with open(path, "r+b", buffering=0) as f:
        for at in range(0, len(good), step):
            os.pwrite(f.fileno(), bytes([good[at] ^ r.randint(1, 255)]), at)
            try:
                assert answers(ss.Statistics.load(path), predicates) == expected, at
            except ss.StatisticsError:
                caught += 1
            os.pwrite(f.fileno(), good[at : at + 1], at)
    assert caught > len(good) // step // 2
    assert answers(ss.Statistics.load(path), predicates) == expected


def test_every_truncation_is_noticed(tmp_path):
    many(130).index(64).save(tmp_path / "x.stats")
    good, path = (tmp_path / "x.stats").read_bytes(), tmp_path / "y.stats"
    for size in (*range(0, 200), *range(200, len(good), 7), *range(len(good) - 60, len(good))):
        path.write_bytes(good[:size])
        with pytest.raises(
            ss.StatisticsError, match=r"y\.stats: .*(torn or truncated|holds no saved)"
        ):
            ss.Statistics.load(path)
    for extra in (b"x", good):
        path.write_bytes(good + extra)
        with pytest.raises(ss.StatisticsError):
            ss.Statistics.load(path)


def test_damage_is_noticed_where_it_is_read(tmp_path):
    n, path = 1 << 18, tmp_path / "x.stats"
    x = np.arange(n) * 10**6
    schema = pa.schema([("x", pa.int64())])
    ss.Statistics.from_dict({"x": {"min": x, "max": x + 10**6}}, schema).index().save(path)
    at = layout.open_file(str(path)).footer["packed"]["columns"][0]["low"][0]
    with open(path, "r+b") as f:
        f.seek(at + 200_000 * 8)
        f.write(b"\xff")
    loaded = ss.Statistics.load(path)
    near = ss.PruningPredicate("x = 1000000000", schema)
    assert near.survivors(loaded).tolist() == [999, 1000]
    for _ in range(2):
        for text in ("x = 200000000000", "x % 5 = 1 AND x BETWEEN 199990000000 AND 200000000000"):
            with pytest.raises(
                ss.StatisticsError,
                match=r"x\.stats: x\.low is damaged: block \d+, bytes \d+ to \d+.*"
                r"save the statistics again",
            ):
                ss.PruningPredicate(text, schema).prune(loaded)
    assert near.survivors(loaded).tolist() == [999, 1000]
    for whole in (
        lambda: loaded.column(("x",), loaded.leaf(("x",)).dtype),
        lambda: pickle.dumps(loaded),
        lambda: loaded.save(tmp_path / "y"),
        loaded.index,
    ):
        with pytest.raises(ss.StatisticsError, match="damaged"):
            whole()
    assert not (tmp_path / "y").exists() and os.listdir(tmp_path) == ["x.stats"]


@pytest.mark.parametrize("column", ["s", "y"])
def test_damage_of_given_arrays_and_of_dictionaries(column, tmp_path, small_blocks):
    path = tmp_path / "x.stats"
    many(300).save(path)
    opened = layout.open_file(str(path))
    name = {"s": "s: keys", "y": "y"}[column]
    _, at, length, _ = next(s for s in opened.footer["sections"] if s[0] == name)
    with open(path, "r+b") as f:
        f.seek(at + length // 2)
        byte = f.read(1)
        f.seek(at + length // 2)
        f.write(bytes([byte[0] ^ 1]))
    loaded = ss.Statistics.load(path)
    assert ss.PruningPredicate("x > 5", SCHEMA).prune(loaded).any()
    for use in (
        lambda: ss.PruningPredicate("s = 'a'", SCHEMA).prune(loaded),
        lambda: loaded.get("y", "min"),
    ):
        if (column == "s") == ("prune" in use.__code__.co_names):
            with pytest.raises(ss.StatisticsError, match="section"):
                use()
        else:
            use()


CHANGES = {
    "n": lambda f: f.update(containers=299),
    "negative": lambda f: f.update(containers=-1),
    "text": lambda f: f.update(containers="300"),
    "overlap": lambda f: f["sections"][1].__setitem__(1, f["sections"][0][1]),
    "outside": lambda f: f["sections"][-1].__setitem__(2, 1 << 40),
    "swapped": lambda f: f["sections"].reverse(),
    "schema": lambda f: f.update(schema=base64.b64encode(b"nothing" * 9).decode()),
    "other schema": lambda f: f.update(
        schema=base64.b64encode(pa.schema([("x", pa.int32())]).serialize().to_pybytes()).decode()
    ),
    "lane": lambda f: f["packed"]["columns"][0].update(lane="float32"),
    "unknown lane type": lambda f: f["packed"]["columns"][0].update(lane="object"),
    "key": lambda f: f["packed"]["columns"][0].pop("may_hold_nan"),
    "path": lambda f: f["packed"]["columns"][0].update(path=[]),
    "far": lambda f: f["packed"]["columns"][0]["low"].__setitem__(0, 1 << 50),
    "before": lambda f: f["packed"]["columns"][0]["low"].__setitem__(0, -8),
    "odd": lambda f: f["packed"]["columns"][0]["low"].__setitem__(0, 65),
    "short": lambda f: f["packed"]["columns"][0]["low"].__setitem__(2, 299),
    "plane": lambda f: f["packed"]["columns"][0].update(may_hold_value=None),
    "no codes": lambda f: f["packed"]["columns"][2].update(codes=None),
    "codes": lambda f: f["packed"]["columns"][0].update(codes=["keys", 0]),
    "grid": lambda f: f["index"]["codes"]["columns"][0].update(codes=["grid", "a", 1, 1.0]),
    "shift": lambda f: f["index"]["codes"]["columns"][0].update(codes=["grid", 0, 99, 1.0]),
    "size": lambda f: f["index"]["levels"][0].update(size=1),
    "other size": lambda f: f["index"]["levels"][0].update(size=100),
    "starts": lambda f: f["index"]["levels"][0].update(starts=[64, "int64", 3]),
    "order": lambda f: f["index"]["order"].update(order=None),
    "statistic": lambda f: f["statistics"][0].__setitem__(1, ["mean"]),
    "section": lambda f: f["statistics"][0].__setitem__(2, 99),
    "keys": lambda f: f["packed"]["columns"][2].update(codes=["keys", 99]),
    "parents": lambda f: f.update(counts_parents=1),
    "extras": lambda f: f.update(extras=[[["x"], "min", 0]]),
    "empty": dict.clear,
    "block": lambda f: f.update(block=1 << 20),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_malformed_footers(change, tmp_path):
    many(300).index(64, "y").save(tmp_path / "x.stats")
    rewritten(tmp_path / "x.stats", lambda footer: None)
    ss.Statistics.load(tmp_path / "x.stats")
    rewritten(tmp_path / "x.stats", change)

    def use():
        loaded = ss.Statistics.load(tmp_path / "x.stats")
        answers(loaded, [ss.PruningPredicate(text, SCHEMA) for text in TEXTS])
        return [loaded.get(c, k) for c in ("x", "y", "s") for k in KEYS]

    with pytest.raises(ss.StatisticsError, match=r"x\.stats: "):
        use()


def test_random_footers(tmp_path):
    """Replace any value of a footer by any other: the result is a StatisticsError or an answer."""
    path, r = tmp_path / "x.stats", random.Random(11)
    many(130).index(64, "y").save(path)
    good = path.read_bytes()
    predicates = [ss.PruningPredicate(text, SCHEMA) for text in TEXTS[:4]]

    def change(node):
        items = (
            list(node.items() if isinstance(node, dict) else enumerate(node))
            if isinstance(node, dict | list)
            else []
        )
        if items:
            key, value = r.choice(items)
            if isinstance(value, dict | list) and value and r.random() < 0.9:
                change(value)
            else:
                node[key] = r.choice(
                    (
                        None,
                        True,
                        0,
                        1,
                        -1,
                        64,
                        2**63,
                        1e300,
                        "",
                        "int32",
                        [],
                        {},
                        ["keys", 0],
                        [64, "uint64", 3],
                    )
                )

    for _ in range(400):
        path.write_bytes(good)
        rewritten(path, change)
        try:
            loaded = ss.Statistics.load(path)
            answers(loaded, predicates)
        except (ss.StatisticsError, IndexError):
            pass


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"x",
        b"PAR1" * 100,
        b"ARROW1\0\0" * 100,
        layout.MAGIC,
        layout.MAGIC * 100,
        os.urandom(5000),
    ],
)
def test_foreign_files(data, tmp_path):
    (tmp_path / "x.stats").write_bytes(data)
    with pytest.raises(ss.StatisticsError, match=r"x\.stats: "):
        ss.Statistics.load(tmp_path / "x.stats")


def test_paths_without_a_file(tmp_path):
    for path in (tmp_path, tmp_path / "none"):
        with pytest.raises(ss.StatisticsError, match="cannot be opened"):
            ss.Statistics.load(path)


@pytest.mark.parametrize(
    ("version", "way_out"),
    [
        (layout.VERSION + 1, "a newer Skipstone wrote it: update"),
        (layout.VERSION - 1, "save the statistics again"),
        (0, "save the statistics again"),
    ],
)
def test_versions(version, way_out, tmp_path, monkeypatch):
    path = tmp_path / "x.stats"
    monkeypatch.setattr(layout, "VERSION", version)
    many(10).save(path)
    monkeypatch.undo()
    reads = f"this Skipstone reads version {layout.VERSION}"
    with pytest.raises(
        ss.StatisticsError,
        match=f"has format version {version}; {reads}; {way_out}",
    ):
        ss.Statistics.load(path)
