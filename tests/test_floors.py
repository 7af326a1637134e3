"""The three floors: imports point right only, and heavy packages stay in their homes until they are used."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
BELOW = {"ir": {"ir"}, "kernels": {"ir", "kernels"}, "bindings": {"ir", "kernels", "bindings"}}
# Package -> where it may be imported. Kernels' texts import numba too, but they are text.
HOMES = {
    "numba": "kernels/",
    "cupy": "kernels/gpu/cupy_gpu.py",
    "sqlglot": (
        "bindings/predicates/sql.py",
        "bindings/predicates/sql_reader.py",
        "bindings/predicates/sql_tokens.py",
    ),
    "pyspark": ("bindings/spark/", "bindings/predicates/predicate.py"),
    "pyiceberg": (
        "bindings/predicates/iceberg_expr.py",
        "bindings/predicates/predicate.py",
        "bindings/sources/iceberg/",
    ),  # the second for types alone
    "typer": "bindings/shell/cli.py",
    "xxhash": ("bindings/statistics/membership.py", "bindings/store/", "kernels/run/guard.py"),
}
FILES = sorted(p for floor in BELOW for p in (ROOT / floor).rglob("*.py"))


def imports(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (a.name for a in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield from (
                (f"{node.module}.{a.name}" for a in node.names)
                if node.module in ("skipstone",)
                else (node.module,)
            )


@pytest.mark.parametrize("path", FILES, ids=[str(p.relative_to(ROOT)) for p in FILES])
def test_imports_point_right(path):
    floor = path.relative_to(ROOT).parts[0]
    for name in imports(path):
        parts = name.split(".")
        if parts[0] == "skipstone":
            assert len(parts) > 1, f"{path} imports the root package"
            assert parts[1] in BELOW[floor], f"{path}: {floor} imports {name}"
        home = HOMES.get(parts[0])
        assert home is None or str(path.relative_to(ROOT)).startswith(home), (
            f"{path} imports {name}; its home is {home}"
        )


def test_nothing_of_ours_below_ir():
    roots = {n.split(".")[0] for p in FILES if p.is_relative_to(ROOT / "ir") for n in imports(p)}
    assert roots - set(sys.stdlib_module_names) == {"skipstone", "numpy", "pyarrow"}


HEAVY = (
    "numba",
    "llvmlite",
    "cupy",
    "pyspark",
    "deltalake",
    "pyiceberg",
    "sqlglot",
    "duckdb",
    "polars",
    "typer",
    "rich",
    "xxhash",
)
USES = {
    "the package": "",
    "names": "ss.PruningPredicate, ss.Statistics, ss.col, ss.scan_parquet, ss.Verdict, ss.SkipstoneError",
    "small statistics": """
import pyarrow as pa
schema = pa.schema([("x", pa.int64())])
stats = ss.Statistics.from_dict({"x": {"min": [1, 2], "max": [3, 4]}}, schema)
assert ss.PruningPredicate(ss.col("x") == 4, schema).prune(stats).tolist() == [False, True]
""",
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_no_heavy_package_is_loaded(use):
    code = f"import sys\nimport skipstone as ss\n{use}\nprint([m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "[]\n"


def test_public_names_resolve():
    import skipstone as ss

    assert all(getattr(ss, name) is not None for name in ss.__all__)
    assert set(ss.__all__) == set(ss._HOME_OF) <= set(dir(ss))
    with pytest.raises(AttributeError, match="no attribute 'nope'"):
        ss.nope  # noqa: B018


def test_the_list_of_spark_files_is_whole():
    from skipstone.bindings import spark

    listed = {line.split()[0] for line in spark.__doc__.splitlines() if line.startswith("    ")}
    assert listed == {p.stem for p in (ROOT / "bindings" / "spark").glob("*.py")} - {"__init__"}
