"""Casts of text columns: plain text goes through Arrow, and must become what each text becomes."""

import random

import numpy as np
import pyarrow as pa
import pytest

from skipstone.ir import types as ty
from skipstone.ir.function import Call
from skipstone.ir.functions.cast_values import text_column_to, text_to
from skipstone.ir.session import Session
from skipstone.ir.types import DType, Kind
from tests.support.effort import LONG

TYPES = [
    *(DType(Kind.INT, bits=bits) for bits in (8, 16, 32, 64)),
    *(DType(Kind.FLOAT, bits=bits) for bits in (32, 64)),
    *(
        DType(Kind.DECIMAL, precision=p, scale=s)
        for p, s in ((12, 2), (38, 0), (38, 10), (5, 5), (18, 0))
    ),
    ty.DATE, ty.TIMESTAMP, ty.TIMESTAMP_NTZ, ty.BOOL,
]  # fmt: skip
ODD = [
    "", "-", ".", "1.", ".5", "+5", " 5", "5 ", "5\n", "007", "-0", "-0.0", "0x10", "1_0", "1e5",
    "1E-3", "1d", "1e400", "nan", "Inf", "-infinity", "true", "f", "\u0665", "\uff11",
    "127", "128", "-128", "-129", "32767", "32768", "2147483647", "2147483648", "-2147483649",
    "9223372036854775807", "9223372036854775808", "25353411644292328151", "99999999.995",
    "9999999999.99", "10000000000.00", "0.000005", "0.99999", "1970-01-01", "0001-01-01",
    "9999-12-31", "2023-02-29", "2024-02-29", "2024-02-30", "2024-1-1", "2024-01-01 00:00:00",
    "2024-01-01T23:59:59.999999", "2024-01-01 24:00:00", "2024-01-01 00:00:00Z",
    "2024-03-31 02:30:00", "2024-01-01 00:00", "2024-01-01 00:00:00.1234567",
]  # fmt: skip


def texts(random_: random.Random) -> list[str]:
    """Return plain texts of one kind, and odd ones among them or not."""

    def number() -> str:
        return str(random_.randint(-(10 ** random_.randint(1, 22)), 10 ** random_.randint(1, 22)))

    def fraction() -> str:
        form = f".{random_.randint(0, 18)}{random_.choice('fe')}"
        return format(random_.uniform(-1, 1) * 10 ** random_.randint(-5, 20), form)

    def day() -> str:
        r = random_.randint
        return f"{r(0, 9999):04}-{r(0, 13):02}-{r(1, 31):02}"

    def time() -> str:
        r = random_.randint
        clock = f"{r(0, 24):02}:{r(0, 60):02}:{r(0, 59):02}"
        return f"{day()}{random_.choice(' T')}{clock}{random_.choice(['', f'.{r(0, 999999)}'])}"

    kind = random_.choice([number, fraction, day, time, lambda: str(random_.randint(-99, 99))])
    found = [kind() for _ in range(random_.choice([5, 60]))]
    return found if random_.random() < 0.3 else found + random_.sample(ODD, 5)


def calls():
    for to in TYPES:
        for ansi in (True, False):
            for name in ("cast", "try_cast"):
                for zone in ("UTC", "Europe/Berlin"):
                    yield Call(name, (ty.STRING,), to, Session(zone, ansi))


def check(given: list[str]) -> int:
    """Compare columns with single texts; return the number of columns that were compared."""
    each = np.empty(len(given), object)
    each[:] = [text.encode() for text in given]
    column = pa.array(given, pa.large_string())
    compared = 0
    for call in calls():
        found = text_column_to(call, column)
        if found is None:
            continue
        values, bad = found if isinstance(found, tuple) else (found, np.zeros(len(given), np.uint8))
        expected, expected_bad = text_to(call, each)
        assert bad.tolist() == expected_bad.tolist(), call
        for text, a, b, lost in zip(given, values, expected, bad, strict=True):
            assert lost or a == b or (a != a and b != b), (call, text)
        compared += 1
    return compared


@pytest.mark.parametrize("seed", range(2_000 if LONG else 40))
def test_columns_are_cast_as_their_texts(seed):
    assert check(texts(random.Random(seed))) > 90


@pytest.mark.parametrize("text", ODD)
def test_each_odd_text_alone(text):
    check([text])
    check([text, "5", "2024-01-01"])


def test_arrow_casts_plain_columns():
    """No text of theirs goes through Python."""
    plain = {
        "7": [t for t in TYPES if t.kind in (Kind.INT, Kind.FLOAT)],
        "0.25": [TYPES[4], TYPES[5], TYPES[6], TYPES[8]],
        "2024-02-29": [ty.DATE],
        "2024-02-29 12:34:56.5": [ty.TIMESTAMP, ty.TIMESTAMP_NTZ],
    }
    for text, types in plain.items():
        for to in types:
            call = Call("cast", (ty.STRING,), to, Session())
            assert isinstance(text_column_to(call, pa.array([text], pa.large_string())), np.ndarray)
