"""Statistics of very many containers: in shards, each a file of its own, below a manifest."""
