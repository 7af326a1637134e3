"""Statistics of files that the caller registers, instead of those in footers."""
