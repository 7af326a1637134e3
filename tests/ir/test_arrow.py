"""NumPy's and Arrow's arrays, without pandas."""

import subprocess
import sys
from decimal import Decimal
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from skipstone.ir import arrow

CONVERSION_ERRORS = (pa.ArrowException, OverflowError, ValueError, TypeError)


def as_if_pandas_were_not_imported():
    return mock.patch.object(arrow, "_would_import_pandas", return_value=True)


NUMBERS = st.sampled_from(arrow.NUMBERS).map(np.dtype)


@given(
    hnp.arrays(st.one_of(NUMBERS, st.just(np.dtype(bool))), st.integers(0, 70)),
    st.integers(0, 9),
    st.data(),
)
def test_arrays_go_to_arrow_and_back(values, offset, data):
    known = data.draw(st.none() | hnp.arrays(bool, len(values)))
    made = arrow.arrow_of(values, known)
    made.validate(full=True)
    assert made.equals(pa.array(values, mask=None if known is None else ~known)) or (
        values.dtype.kind == "f" and np.isnan(values.astype(float)).any()
    )
    part = made.slice(offset)
    found, wanted = arrow.known_of(part), np.ones(len(values), bool) if known is None else known
    assert (wanted[offset:] if found is None else found == wanted[offset:]).all()
    if values.dtype == bool:
        assert (arrow.booleans_of(part) == (values & wanted)[offset:]).all()
        chunks = pa.chunked_array([made, part])
        assert len(arrow.booleans_of(chunks)) == len(made) + len(part)
    else:
        np.testing.assert_array_equal(arrow.numbers_of(part), values[offset:])


@given(st.lists(st.binary(max_size=5)))
def test_binary(values):
    assert arrow.binary_of(values).equals(pa.array(values, pa.large_binary()))


VALUES = st.one_of(
    st.integers(-(2**65), 2**65), st.integers(-200, 300), st.booleans(), st.binary(max_size=3),
    st.text(max_size=3), st.floats(), st.dates(), st.datetimes(), st.none(),
)  # fmt: skip
KINDS = st.sampled_from(
    [
        pa.int8(), pa.uint8(), pa.int64(), pa.uint64(), pa.float32(), pa.float64(), pa.bool_(),
        pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.date32(), pa.date64(),
        pa.timestamp("us"), pa.decimal128(20, 2), pa.null(), pa.float16(),
    ]
)  # fmt: skip


@given(VALUES.flatmap(lambda v: st.lists(st.one_of(VALUES, *[st.just(v)] * 5), max_size=5)), KINDS)
def test_values_of_python_convert_as_arrow_converts_them(values, kind):
    try:
        expected = pa.array(values, kind)
    except CONVERSION_ERRORS:
        with pytest.raises(CONVERSION_ERRORS), as_if_pandas_were_not_imported():
            arrow.python_array(values, kind)
        return
    with as_if_pandas_were_not_imported():
        found = arrow.python_array(values, kind)
    found.validate(full=kind != pa.date64())  # Arrow makes some of parts of a day
    assert found.type == kind
    assert found.equals(expected) or repr(found.to_pylist()) == repr(expected.to_pylist())  # NaN


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (5, pa.int8()), (-(2**63), pa.int64()), (2**64 - 1, pa.uint64()), (0.1, pa.float32()),
        (float("inf"), pa.float64()), (True, pa.bool_()), (False, pa.bool_()),
        (b"", pa.large_binary()), (b"a\0b", pa.large_binary()),
    ],
)  # fmt: skip
def test_scalars(value, kind):
    expected = pa.scalar(value, kind)
    assert arrow.without_pandas([value], kind)[0].equals(expected)
    assert arrow.scalar_of(value, kind).equals(expected)
    with as_if_pandas_were_not_imported():
        assert arrow.scalar_of(value, kind).equals(expected)


@pytest.mark.parametrize(
    "text", ["1.50", "-0.01", "0", "0E-90", "1E+2", "1.005", "1E+30", "NaN", "Infinity",
             "1" + "0" * 120, "1." + "0" * 110 + "1", "-" + "9" * 18 + ".99", "9" * 18 + ".995"]
)  # fmt: skip
def test_decimals_are_never_rounded(text):
    kind = pa.decimal128(20, 2)
    try:
        expected = pa.array([Decimal(text), None], kind)
    except CONVERSION_ERRORS:
        expected = None
    found = arrow.without_pandas([Decimal(text), None], kind)
    assert found is None or found.equals(expected)
    assert found is not None or expected is None or text == "0E-90"


@pytest.mark.parametrize("chunks", [[], [[1, None, 3]], [[1], [], [None, 3]]], ids=str)
def test_integers_and_booleans_as_numpy(chunks):
    for kind in (pa.int8(), pa.int64(), pa.uint32()):
        values = pa.chunked_array(chunks, kind)
        for sliced in (values, values.slice(1)):
            assert arrow.int64_of(sliced, 9).tolist() == sliced.fill_null(9).to_pylist()
            assert arrow.fill(sliced, 7).to_pylist() == sliced.fill_null(7).to_pylist()
            truth = arrow.booleans_of(sliced.is_valid())
            assert truth.tolist() == sliced.is_valid().to_pylist()


def test_once_pandas_is_there_arrow_converts(monkeypatch):
    """It is five times as fast, and so it is for many values."""
    pytest.importorskip("pandas")
    monkeypatch.setattr(arrow, "without_pandas", lambda *_: pytest.fail("the slow way is taken"))
    assert arrow.python_array([1, None], pa.int64()).to_pylist() == [1, None]
    with as_if_pandas_were_not_imported():
        assert (
            len(arrow.python_array([1] * (arrow.MAX_WITHOUT_PANDAS + 1), pa.int64()))
            == arrow.MAX_WITHOUT_PANDAS + 1
        )


def test_a_first_answer_imports_neither_pandas_nor_numba(tmp_path):
    """Both are installed here, and take as long to import as all the rest."""
    pytest.importorskip("pandas")
    text = f"""
import sys
import pyarrow as pa, pyarrow.parquet as pq
import numpy as np
from skipstone.ir.arrow import arrow_of
n = 100_000
x = arrow_of(np.arange(n))
t = pa.Table.from_arrays([x, x.cast(pa.string()), x.cast(pa.float64())], names=["x", "s", "f"])
pq.write_table(t, {str(tmp_path / "a.parquet")!r}, row_group_size=10_000, data_page_size=10_000)
import skipstone as ss
table = ss.scan_parquet({str(tmp_path)!r})
for where, count in (("x BETWEEN 25000 AND 25009", 10), ("s = '777'", 1), ("f < 3 AND x > 0", 2)):
    assert table.plan(where, columns=["x"]).to_arrow().num_rows == count, where
print([m for m in ("pandas", "numba") if m in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr
