"""Measure, report, save, compare and draw figures; `bench` says what each file does."""
