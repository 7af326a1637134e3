"""Write and judge shards of statistics in Spark jobs."""
