"""Dynamic filters: collect the keys of a join and judge containers by them."""
