"""Workloads over tables of files: Delta, Hive, Iceberg, and joins of tables."""
