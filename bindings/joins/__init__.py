"""Join a probe side with build sides, and read only what the keys leave."""
