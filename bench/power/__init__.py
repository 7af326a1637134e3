"""The workload `power`: which row groups each engine skips, by form of predicate."""
