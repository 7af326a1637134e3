"""Coercion: literals in the types of columns, and comparisons as tests against thresholds."""
