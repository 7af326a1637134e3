"""Spark's session, types and JVM, and Catalyst expressions as predicates."""
