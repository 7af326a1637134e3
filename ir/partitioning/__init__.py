"""Partition transforms: what a predicate says of the values that Iceberg and Hive partition by."""
