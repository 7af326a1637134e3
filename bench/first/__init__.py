"""`first`: what a person meets first: new predicates, fresh processes, small files."""
