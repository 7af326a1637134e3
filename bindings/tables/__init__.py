"""Tables to scan, and what their formats share: files, partitions, deletes, readers."""
