"""Workloads in a Spark session."""
