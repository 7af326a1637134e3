"""Levels above containers, sorted copies and coarse codes, and the descent through them."""
