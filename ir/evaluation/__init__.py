"""Parts of the row evaluator (ir/rows.py)."""
