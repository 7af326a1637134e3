"""Measurements: `python -m bench` from a checkout. Nothing is timed before its answer was compared."""
