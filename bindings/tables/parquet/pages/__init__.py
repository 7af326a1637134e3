"""Pages: choose them by their statistics, read the chosen ones, decode them."""
