"""Partition transforms: conditions on rows become conditions on the partition values of Iceberg and
Hive.
"""
