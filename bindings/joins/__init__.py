"""Join a probe side with build sides, and read only the rows that may have a key."""
