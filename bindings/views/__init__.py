"""Pictures of tables, plans and statistics, in HTML and PNG."""
