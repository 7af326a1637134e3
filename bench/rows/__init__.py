"""`rows`: from paths to rows of TPC-H lineitem, compared with other engines."""
