"""Dynamic filters: what one side of a join says of the containers that the other side reads."""
