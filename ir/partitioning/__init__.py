"""Partition transforms, and predicates over the partition values of Iceberg and Hive."""
