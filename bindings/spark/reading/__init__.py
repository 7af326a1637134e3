"""Read the files that a plan keeps as a Spark DataFrame."""
