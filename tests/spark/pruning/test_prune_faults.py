"""Decisions of `prune` that planted faults had changed unnoticed; plans that it leaves alone."""

from dataclasses import dataclass, field

import pytest

from skipstone.bindings.spark.pruning import prune as module
from skipstone.bindings.spark.pruning.prune import _may_read_elsewhere, _new_indexes, prune, pruned
from skipstone.bindings.spark.pruning.reports import Pruned
from skipstone.ir.errors import BackendMissing
from tests.support.spark.compare import write

pytest.importorskip("pyspark")
from pyspark.errors import PySparkException

UNTIL = 12345
OTHERS = "another scan of the query needs its files"
ELSEWHERE = "Spark does not read these files everywhere the query names them"


@dataclass(eq=False)
class Scanned:
    """A scan of the files "a" to "d" of one table; its index is the set of files it lists."""

    ids: set[int]
    needs: str = "abcd"
    table: str = "t"
    why: list[str] = field(default_factory=list)
    shared: list[set[str]] = field(default_factory=list)

    index = frozenset("abcd")

    @property
    def number(self):
        return min(self.ids)

    @property
    def pruned(self):
        return self.needs != "abcd" and not self.why

    def overlaps(self, other):
        return self.table == other.table

    def needed(self):
        return iter(self.needs)

    def drops(self, needed):
        return [f for f in "abcd" if f not in self.needs and f not in needed]

    def without(self, index, needed, validity):
        assert validity == (UNTIL, "gateway")
        return index - set(self.drops(needed))

    def count_shared(self, needed):
        self.shared.append(needed)

    def leave_unpruned(self, why):
        assert self.pruned  # a scan that was not pruned has its own reason
        self.why.append(why)


#   scans of the analysed plan: ids, table
#   scans of the optimised plan: ids, files it needs, table
#   whether rows of removed scans may come from elsewhere
#   files that the new indexes list, by the scans' numbers; why optimised scans are left unpruned
T, U = (1, "t"), (2, "t")
INDEXES = [
    ([T],         [(1, "ab", "t")],                      False, {1: "ab"},           [[]]),
    ([T],         [(1, "ab", "t")],                      True,  {1: "ab"},           [[]]),
    ([T],         [(1, "abcd", "t")],                    False, {},                  [[]]),
    # Each scan by its own condition.
    ([T, U],      [(1, "ab", "t"), (2, "c", "t")],       False, {1: "ab", 2: "c"},   [[], []]),
    ([T, U],      [(1, "ab", "t"), (2, "abcd", "t")],    False, {1: "ab"},           [[], []]),
    ([T, (2, "u")], [(1, "ab", "t"), (2, "c", "u")],     False, {1: "ab", 2: "c"},   [[], []]),
    # A removed scan, or a copy: only files that no scan needs are left out.
    ([T, U],      [(1, "ab", "t")],                      False, {1: "ab", 2: "ab"},  [[]]),
    ([T, U],      [(1, "ab", "t")],                      True,  {},                  [[ELSEWHERE]]),
    ([T],         [(1, "a", "t"), (9, "b", "t")],        False, {1: "ab"},           [[], []]),
    ([T],         [(1, "a", "t"), (9, "b", "t")],        True,  {1: "ab"},           [[], []]),
    ([T],         [(8, "a", "t"), (9, "b", "t")],        False, {1: "ab"},           [[], []]),
    ([T],         [(1, "a", "t"), (9, "abcd", "t")],     False, {},         [[OTHERS], []]),
    ([T],         [(1, "ab", "t"), (9, "cd", "t")],      False, {},         [[OTHERS], [OTHERS]]),
    # The scans of another table do not matter.
    ([T, (2, "u")], [(1, "ab", "t")],                    True,  {1: "ab"},           [[]]),
    ([T, (2, "u"), (3, "u")], [(1, "ab", "t"), (2, "c", "u")], False,
     {1: "ab", 2: "c", 3: "c"},                                                      [[], []]),
]  # fmt: skip


@pytest.mark.parametrize("analysed, judged, elsewhere, files, whys", INDEXES)
def test_new_indexes(analysed, judged, elsewhere, files, whys, monkeypatch):
    monkeypatch.setattr(module, "validity_of", lambda gateway, until, scans: (until, gateway))
    scans = [Scanned({i}, needs, table) for i, needs, table in judged]
    given = [Scanned({i}, table=table) for i, table in analysed]
    found = _new_indexes("gateway", given, scans, UNTIL, elsewhere)
    assert found == {i: frozenset(kept) for i, kept in files.items()}
    assert [scan.why for scan in scans] == whys
    for scan in scans:
        # Its report counts what others need.
        others = scan.pruned and any(set(kept) > set(scan.needs) for kept in files.values())
        assert len(scan.shared) >= others


#     leaves of the analysed plan, of the optimised plan, whether rows may come from elsewhere
LEAVES = [
    ({"Scan": 2},             {"Scan": 1},                False),
    ({"Scan": 1},             {"Scan": 1},                False),
    ({"Scan": 1},             {"Scan": 2},                True),
    ({"Scan": 1},             {"Scan": 1, "Cache": 1},    True),
    ({"Scan": 1, "Cache": 1}, {"Cache": 1},               False),
    ({"Scan": 1},             {"Scan": 0},                False),
    ({"Scan": None},          {"Scan": 0},                False),
    ({"Scan": 1},             {},                         False),
]  # fmt: skip


@pytest.mark.parametrize("analysed, optimised, expected", LEAVES)
def test_may_read_elsewhere(analysed, optimised, expected):
    assert _may_read_elsewhere(analysed, optimised) is expected


class Frame:
    """Stands for a DataFrame of classic Spark."""

    isStreaming = False
    sparkSession = "session"


#     the argument `joins`, SKIPSTONE_DYNAMIC_FILTERING, whether joins are used
JOINS = [(True, "1", True), (False, "1", False), (True, "0", False), (False, "0", False)]


@pytest.mark.parametrize("joins, variable, used", JOINS)
def test_joins_are_used_if_both_switches_are_on(joins, variable, used, monkeypatch):
    monkeypatch.setenv("SKIPSTONE_DYNAMIC_FILTERING", variable)
    df, asked = Frame(), []
    report = Pruned(())
    monkeypatch.setattr(module, "prune_classic", lambda *given: asked.append(given) or (df, report))
    assert prune(df, joins=joins, filesystem="files") is df
    assert asked == [(df, "files", module.filter_scans_by_joins if used else None)]
    assert pruned(df) is report


@pytest.mark.parametrize("error", [BackendMissing("no classes"), RecursionError("deep")], ids=repr)
def test_a_plan_that_cannot_be_read_is_left_alone(error, monkeypatch):
    def refuse(*_):
        raise error

    monkeypatch.setattr(module, "plan_gateway", refuse)
    df = Frame()
    found = prune(df)
    assert found is df
    (scan,) = pruned(found)
    assert (scan.files, scan.kept) == (None, None)
    assert scan.why.startswith("its plan cannot be read (") and str(error) in scan.why


@pytest.mark.parametrize("where", ["x = 1 / 0", "x = '5.7'", "s = CAST('2024-13-01' AS DATE)"])
def test_a_constant_that_raises_does_so_in_the_action(spark, tmp_path, where):
    """The optimiser raises it; the DataFrame stays as it is."""
    write(str(tmp_path / "0.parquet"), x=[1], s=["a"])
    plain = spark.read.parquet(str(tmp_path)).where(where)
    found = prune(plain)
    assert found is plain and pruned(found)[0].why.startswith("its plan cannot be optimised (")
    with pytest.raises(PySparkException, match=r"DIVIDE_BY_ZERO|CAST_INVALID_INPUT"):
        found.collect()
