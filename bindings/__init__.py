"""Where Skipstone meets the world: Python calls, SQL text, Parquet, Spark, the command line."""
