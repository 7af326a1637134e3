"""Hive tables: folders `key=value` of Parquet files."""
