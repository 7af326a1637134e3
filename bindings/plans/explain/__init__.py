"""Explain plans and predicates: which data is read, why, and what would prune more."""

from skipstone.bindings.plans.explain.conjuncts import Conjunct as Conjunct
from skipstone.bindings.plans.explain.conjuncts import judge_conjuncts as judge_conjuncts
