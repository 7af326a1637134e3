"""Judge and write shards of statistics by jobs of Spark."""
