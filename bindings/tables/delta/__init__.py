"""Delta tables: the log, its statistics, deletion vectors and generated columns."""
