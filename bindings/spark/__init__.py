"""Spark: pandas UDFs over statistics."""
