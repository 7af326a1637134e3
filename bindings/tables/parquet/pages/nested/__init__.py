"""Nested columns: read by the pages of each Parquet column of them, or whole."""
