"""Measure how a table is clustered, and find layouts that would prune more."""
