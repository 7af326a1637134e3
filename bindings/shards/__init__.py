"""Shards: statistics that outgrow one machine, in many files under one manifest."""
