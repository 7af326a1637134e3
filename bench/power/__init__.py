"""The workload `power`: which row groups each engine leaves out, by form of predicate."""
