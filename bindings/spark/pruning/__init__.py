"""Replace the file lists of a DataFrame's scans by those that can match."""
