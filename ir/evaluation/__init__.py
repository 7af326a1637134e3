"""Parts of the row evaluator (ir/rows.py), and the oracle for one container."""
