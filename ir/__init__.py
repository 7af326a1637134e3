"""What a predicate means: nodes, types, binding, rules, lowering, the oracle, the row evaluator."""
