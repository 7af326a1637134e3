"""Pack statistics: bounds and counts become arrays, bit planes and order-preserving codes."""
