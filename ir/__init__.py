"""The meaning of a predicate: nodes, types, binding, rules, lowering, the oracle, the row
evaluator.
"""
