"""Check the oracle by rows."""

import itertools

import skipstone as ss
from skipstone.ir.evaluation import oracle
from skipstone.ir.merge import merge
from skipstone.ir.node import TERMS, Op
from skipstone.ir.rows import judge as judge_rows
from tests.support.predicates.predicates import predicate
from tests.support.rows.strategies import table
from tests.support.rows.zonemaps import zone_map


def outcomes_of_row(n, row):
    """Return the possible outcomes of a predicate on one row.

    They are all outcomes if Spark raises or if the value is not known here. `lower` and `upper`
    never raise: they turn any text into text.
    """
    truth = judge_rows(n, row, {})
    if not truth.may_raise[0]:
        return {True if truth.true[0] else False if truth.false[0] else None}
    if n.op in (Op.AND, Op.OR):
        decides = n.op is Op.OR
        return {
            decides if decides in each else None if None in each else not decides
            for each in itertools.product(*(outcomes_of_row(a, row) for a in n.args))
        }
    tested = n.args[0]
    if n.op is Op.NOT:
        return {None if o is None else not o for o in outcomes_of_row(tested, row)}
    if n.op is Op.IS_TRUE:
        return {o is True for o in outcomes_of_row(tested, row)}
    if n.op is Op.IS_NULL and tested.op not in TERMS:
        return {o is None for o in outcomes_of_row(tested, row)}
    if (
        tested.op is Op.CALL
        and tested.value[0] in ("lower", "upper")
        and tested.args[0].op is Op.COLUMN
    ):
        return {Op.DEFINED: {True}, Op.IS_NULL: {False}}.get(n.op, {True, False})
    return {True, False, None}


def judge(r, *, containers=3, predicates=3):
    """Check random predicates over one random table; return how many outcomes were seen."""
    t = table(r, containers=containers)
    z = zone_map(r, t, contained=r.random() < 0.3)
    seen = 0
    for _ in range(predicates):
        q = predicate(r, t.fields, plain=True)
        p = ss.PruningPredicate(q.sql, t.schema)
        if any(n.op is Op.UNKNOWN for n in p.node.walk()):
            continue
        for j, rows in enumerate(t.containers):
            facts = z.facts(j)
            predicted = oracle.outcomes(merge(p.node), facts)
            truth = judge_rows(p.node, t.batch(j), {})
            nulls = ~(truth.true | truth.false | truth.may_raise)
            found = {
                o
                for o, rows_of in ((True, truth.true), (False, truth.false), (None, nulls))
                if rows_of.any()
            }
            case = (q.sql, p.expr, t.containers[j], z.stats[j], found, predicted)
            assert found <= predicted, case
            # Tests of a term that raises seem independent here, but merged tests are not. What
            # must be right is whether the outcome may be TRUE, and whether it may be another.
            for i in truth.may_raise.nonzero()[0].tolist():
                raised = outcomes_of_row(p.node, t.batch(j).slice(i, 1))
                assert True not in raised or True in predicted, case
                assert not raised - {True} or predicted - {True}, case
                found |= raised
            verdict = oracle.verdict(p.node, facts, z.rows[j])
            assert not (verdict == ss.Verdict.NEVER and True in found), (
                q.sql,
                t.containers[j],
                z.stats[j],
            )
            assert not (verdict == ss.Verdict.ALWAYS and found - {True}), (
                q.sql,
                t.containers[j],
                z.stats[j],
            )
            seen += len(rows) - int(truth.may_raise.sum())
    return seen
