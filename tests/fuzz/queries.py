"""Random queries of Spark SQL over a fact table `f` and two dimensions, `d` and `e`."""

import random
from typing import Final

FACTS: Final = (
    "k INT, x BIGINT, day DATE, at TIMESTAMP, s STRING, v DOUBLE, c DECIMAL(9,2), p STRING"
)
DIMS: Final = "k INT, r INT, name STRING, day DATE"
JOINED: Final = (
    "JOIN", "JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN",
    "LEFT ANTI JOIN",
)  # fmt: skip
HINTS: Final = ("", "", "/*+ BROADCAST(d) */", "/*+ MERGE(d) */", "/*+ SHUFFLE_HASH(d) */")


class Queries:
    """Draws queries whose rows have no order, and whose values do not depend on one.

    Args:
        r: The source of randomness.
    """

    def __init__(self, r: random.Random) -> None:
        self.r = r

    def number(self) -> int:
        return self.r.choice((self.r.randrange(400), self.r.randrange(400), -1, 0, 1000))

    def day(self) -> str:
        return f"DATE '2024-01-01' + {self.r.randrange(-5, 60)}"

    def of_fact(self, t: str = "f") -> str:
        """Return a condition on the fact table."""
        r, n = self.r, self.number()
        one = r.choice((
            f"{t}.k {r.choice(('=', '<', '>', '<=', '>=', '<>', '<=>'))} {n}",
            f"{t}.k BETWEEN {n} AND {n + r.randrange(60)}",
            f"{t}.k IN ({', '.join(str(self.number()) for _ in range(r.randint(1, 14)))})",
            f"abs({t}.k) {r.choice('<>')} {n}", f"{t}.k % {r.randint(2, 90)} = 1",
            f"{t}.x - 1000 > {n}", f"{t}.x * 2 < {2 * n + 2000}",
            f"{t}.day = {self.day()}", f"{t}.day >= {self.day()}",
            f"month({t}.day) = {r.randint(1, 3)}", f"{t}.at < TIMESTAMP '2024-01-10 03:00:00'",
            f"date_trunc('week', {t}.at) > {self.day()}", f"CAST({t}.at AS DATE) = {self.day()}",
            f"{t}.s LIKE 's{r.randrange(10)}%'", f"{t}.s NOT LIKE 's1%'",
            f"substr({t}.s, 2, 1) = '{r.randrange(10)}'", f"{t}.s >= 's{r.randrange(400)}'",
            f"{t}.s IS NULL", f"{t}.s IS NOT NULL", f"{t}.v > {n / 4}", f"isnan({t}.v)",
            f"{t}.v = CAST('NaN' AS DOUBLE)", f"{t}.c < {n}.25", f"coalesce({t}.s, 'z') = 'z'",
            f"{t}.p = '{r.choice('abc')}'", f"{t}.p IN ('a', 'c')",
            f"CASE WHEN {t}.k > {n} THEN {t}.s = 's5' ELSE {t}.day IS NULL END",
        ))  # fmt: skip
        return self.combined(one, lambda: self.of_fact(t))

    def of_dim(self, t: str = "d") -> str:
        """Return a condition on a dimension; most leave few of its rows."""
        r, n = self.r, self.r.randrange(40)
        one = r.choice((
            f"{t}.name = 'n{n}'", f"{t}.name LIKE 'n{n}%'", f"{t}.r = {r.randrange(8)}",
            f"{t}.name IN ('n{n}', 'n{n + 1}', 'n{n + 9}')", f"{t}.k < {n}",
            f"{t}.day > {self.day()}", f"{t}.name IS NULL", f"length({t}.name) > 2",
        ))  # fmt: skip
        return self.combined(one, lambda: self.of_dim(t))

    def combined(self, one: str, other) -> str:
        form = self.r.random()
        if form < 0.15:
            return f"({one} AND {other()})"
        if form < 0.25:
            return f"({one} OR {other()})"
        return f"NOT ({one})" if form < 0.32 else one

    def key(self) -> str:
        r = self.r
        return r.choice((
            "f.k = d.k", "f.k = d.k", "f.k = d.k", "f.k <=> d.k", "f.x = d.k + 1000",
            "f.k = d.k AND f.day = d.day", "f.day = d.day", "f.k = d.r * 50",
            "f.k = d.k AND f.x > d.r", "CAST(f.k AS STRING) = substr(d.name, 2)", "f.k + 0 = d.k",
        ))  # fmt: skip

    def query(self) -> str:
        """Return a query."""
        r = self.r
        fact, dim, how, key = self.of_fact(), self.of_dim(), r.choice(JOINED), self.key()
        columns = "f.k, f.x, f.s" if how in JOINED[-2:] else "f.k, f.x, f.s, d.name"
        above = dim if how not in JOINED[-2:] and r.random() < 0.7 else fact
        inner = r.choice(("IN", "NOT IN"))
        return r.choice((
            f"SELECT * FROM f WHERE {fact}",
            f"SELECT count(*), sum(x), max(s), min(day), count(DISTINCT c) FROM f WHERE {fact}",
            f"SELECT p, count(*), max(v) FROM f WHERE {fact} GROUP BY p HAVING count(*) > 1",
            f"SELECT {r.choice(HINTS)} {columns} FROM f {how} d ON {key} WHERE {above}",
            f"SELECT {r.choice(HINTS)} {columns} FROM f {how} (SELECT * FROM d WHERE {dim}) d "
            f"ON {key} WHERE {fact}",
            f"SELECT d.name, f.x FROM d {r.choice(JOINED[:5])} f ON {key} WHERE {dim}",
            f"SELECT f.x FROM f WHERE f.k {inner} (SELECT d.k FROM d WHERE {dim})",
            f"SELECT f.x FROM f WHERE EXISTS (SELECT 1 FROM d WHERE {key} AND {dim}) AND {fact}",
            f"SELECT f.x FROM f WHERE NOT EXISTS (SELECT 1 FROM d WHERE {key} AND {dim})",
            f"SELECT f.x FROM f WHERE f.k > (SELECT max(d.k) FROM d WHERE {dim}) AND {fact}",
            f"SELECT k, s FROM f WHERE {fact} {r.choice(('UNION ALL', 'UNION', 'EXCEPT'))} "
            f"SELECT k, name FROM d WHERE {dim}",
            f"SELECT k FROM f WHERE {fact} INTERSECT SELECT f.k FROM f JOIN d ON {key} WHERE {dim}",
            f"WITH w AS (SELECT f.* FROM f WHERE {fact}) SELECT a.x, b.s FROM w a JOIN w b "
            f"ON a.k = b.k JOIN d ON a.k = d.k WHERE {dim}",
            f"SELECT x, n FROM (SELECT f.x, {dim} y, row_number() OVER (PARTITION BY f.p ORDER BY "
            f"f.x, d.k) n FROM f JOIN d ON {key} WHERE {fact}) WHERE n < 4 AND y",
            f"SELECT f.x, e.t FROM f JOIN d ON {key} JOIN e ON d.r = e.r WHERE e.t = "
            f"'t{r.randrange(8)}' AND {fact}",
            f"SELECT f.x FROM f JOIN (SELECT k, max(r) r FROM d WHERE {dim} GROUP BY k) d "
            f"ON f.k = d.k WHERE d.r > 1 OR {fact}",
            f"SELECT f.x, f.k FROM f JOIN d ON {key} WHERE {dim} ORDER BY f.x, d.k LIMIT 5",
            f"SELECT sum(x) FROM (SELECT * FROM f UNION ALL SELECT * FROM f WHERE {fact}) f "
            f"JOIN d ON {key} WHERE {dim}",
            f"SELECT CASE WHEN EXISTS (SELECT 1 FROM d WHERE {key} AND {dim}) THEN 1 END z, x "
            f"FROM f WHERE {fact}",
            f"SELECT d.k, (SELECT count(*) FROM f WHERE f.k = d.k AND {fact}) n FROM d WHERE {dim}",
            f"SELECT f.p, d.r, count(*) FROM f JOIN d ON {key} WHERE {dim} "
            "GROUP BY CUBE (f.p, d.r)",
        ))  # fmt: skip
