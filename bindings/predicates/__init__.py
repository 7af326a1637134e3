"""Predicates from text, expressions and other libraries, and judging statistics by them."""
