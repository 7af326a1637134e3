"""Checks of statistics against the rows that they describe."""
