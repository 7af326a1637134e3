"""Read what a plan leaves as a Spark DataFrame."""
