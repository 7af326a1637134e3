"""Iceberg tables, planned from their manifests."""
