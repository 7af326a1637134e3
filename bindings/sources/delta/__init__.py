"""Delta Lake tables, planned from their log."""
