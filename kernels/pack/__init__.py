"""Pack statistics: bounds and counts become lanes, bit planes and order-preserving codes."""
