"""Statistics of containers, from every kind of input, saved and loaded."""
