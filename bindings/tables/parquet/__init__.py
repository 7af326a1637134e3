"""Parquet tables: listing, footers, column chunks, bloom filters, saved footers."""
