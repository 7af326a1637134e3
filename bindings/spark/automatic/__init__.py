"""Every query of a session is pruned: an optimiser rule asks Python for the files of its scans."""
