"""Tables: where statistics come from, and how surviving data is read."""
