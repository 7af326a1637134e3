"""Iceberg tables: metadata, manifests, partitions and deletes."""
