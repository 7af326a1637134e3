"""Join a fact table with a dimension, reading only what the keys leave."""
