"""Prune every query of a session: an optimiser rule asks Python for the files of its scans."""
