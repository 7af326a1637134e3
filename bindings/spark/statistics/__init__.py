"""Judge DataFrames of statistics, by native expressions or by UDFs."""
