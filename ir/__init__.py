"""The meaning of a predicate: nodes, types, binding, rules, lowering, oracle, row evaluator."""
