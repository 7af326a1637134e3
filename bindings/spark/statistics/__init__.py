"""Verdicts over DataFrames of statistics: native expressions and UDFs."""
