"""`first`: the time to first answers: new predicates, new processes, small files."""
