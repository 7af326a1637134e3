"""Workloads over statistics: in memory, on disk and on a GPU."""
