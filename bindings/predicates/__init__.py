"""Predicates: parse and bind them, and judge the statistics of containers by them."""
