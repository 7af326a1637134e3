"""How a table is clustered, and which layout would let its queries prune more."""
