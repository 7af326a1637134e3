"""Plans: which containers to read, in which order, at what cost, and why."""
