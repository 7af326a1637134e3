"""The Spark session, its types, its JVM, and Catalyst trees as nodes."""
