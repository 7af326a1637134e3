"""Statistics in a file of their own, ready to be asked."""
