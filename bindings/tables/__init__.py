"""Tables of files, and the parts that their formats share: files, partitions, deletes, readers."""
