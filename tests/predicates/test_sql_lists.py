"""Long IN lists of text are read in bulk, and mean what the parser makes of them."""

import random

import pyarrow as pa
import pytest

from skipstone import PruningPredicate
from skipstone.bindings.predicates import sql
from skipstone.bindings.predicates.sql_lists import MIN_MEMBERS, cut_lists
from skipstone.ir.bind import bind
from skipstone.ir.errors import PredicateError, UnknownColumn
from skipstone.ir.session import Session
from skipstone.ir.types import leaves_of
from tests.support.effort import LONG as EFFORT

SCHEMA = pa.schema(
    [
        ("x", pa.int64()),
        ("y", pa.int32()),
        ("s", pa.string()),
        ("f", pa.float64()),
        ("in", pa.int8()),
    ]
)
NUMBERS = ", ".join(map(str, range(0, 3 * MIN_MEMBERS, 3)))
WIDE = ",".join(str(10**12 * i) for i in range(MIN_MEMBERS)) + " , -5,007,0"
TEXTS = ", ".join(f"'v{i}'" for i in range(MIN_MEMBERS))
# The text, with {n}, {w} and {t} for lists; and the number of lists that are cut out.
CASES = {
    "x IN ({n})": 1,
    "x in({w})": 1,
    "NOT x IN ({n}) AND y > 3": 1,
    "x NOT IN ({n}) OR y IN ({w}) AND s IN ({t})": 3,
    "`in` IN ({n})": 1,
    "x IN ({n}, NULL)": 0,
    "x IN ({n}, 1.5)": 0,
    "x IN ({n}, -3000000000)": 0,
    "s IN ({t}, 'it''s')": 0,
    "s IN ({t}, '\\n')": 0,
    "s IN ({t}) /* IN ({n}) */": 2,
    "s = 'a IN ({n}) b' AND x IN ({n})": 2,
    "x IN (SELECT y FROM t WHERE x IN ({n}))": 1,
    "x + 1 IN ({n})": 1,
    "f IN ({n}) AND f IN ({w})": 2,
    "s IN ({n})": 1,
    "x IN ({t})": 1,
    "coalesce(y IN ({n}), false)": 1,
    "x IN ({n}) = (y IN ({w}))": 2,
    "x BETWEEN 900000001 AND 900000002 OR x IN ({n})": 1,
    "x IN (900000001, 900000002) AND y IN ({n})": 1,
    "-- x IN ({n})\n x = 1": 1,
    "array(x) IN (array(1)) OR x IN ({n})": 1,
}


def filled(text):
    return text.format(n=NUMBERS, w=WIDE, t=TEXTS)


def outcome(text, parse):
    """Return what a text means, or its error; `- 5` becomes -5 when it is bound."""
    try:
        node, positions = parse(text)
        return bind(node, leaves_of(SCHEMA), Session()), positions
    except PredicateError as e:
        return str(e)


@pytest.mark.parametrize("case", CASES)
def test_lists_mean_what_the_parser_makes_of_them(case):
    text = filled(case)
    assert outcome(text, sql._parse_lists) == outcome(text, sql._parse)
    cut = cut_lists(text)
    assert (0 if cut is None else len(cut.lists)) == CASES[case]


@pytest.mark.parametrize("seed", range(300 if EFFORT else 20))
def test_random_lists(seed):
    r = random.Random(seed)

    def member():
        return r.choice(
            [str(r.randrange(100)), str(r.randrange(2**31 - 2, 2**31 + 2)), f"-{r.randrange(9)}"]
            + [f"{r.randrange(10**17)} "] * 3
            + (
                ["1e3", "NULL", "- 3", "(4)", "5L", "'6'", "0x1F", "1_000"]
                if r.random() < 0.01
                else []
            )
        )

    text = f"x {r.choice(['IN', 'NOT IN', 'iN'])} ({', '.join(member() for _ in range(200))})"
    assert outcome(text, sql._parse_lists) == outcome(text, sql._parse)


def test_errors_name_the_place_in_the_whole_text():
    text = filled("x IN ({n}) AND nope = 1")
    with pytest.raises(UnknownColumn) as e:
        PruningPredicate(text, SCHEMA)
    assert e.value.position == text.index("nope")
    broken = filled("x IN ({n}) AND AND y = 1")
    with pytest.raises(PredicateError) as e:
        PruningPredicate(broken, SCHEMA)
    assert e.value.position >= broken.index("AND AND")


def test_long_lists_bind_as_short_ones():
    values = list(range(0, 3000, 7))
    text = f"y IN ({', '.join(map(str, values))})"
    assert cut_lists(text) is not None
    whole = PruningPredicate(text, SCHEMA)
    parts = [values[i : i + MIN_MEMBERS // 2] for i in range(0, len(values), MIN_MEMBERS // 2)]
    pieces = " OR ".join(f"y IN ({', '.join(map(str, part))})" for part in parts)
    assert cut_lists(pieces) is None
    assert whole.node == PruningPredicate(pieces, SCHEMA).node
