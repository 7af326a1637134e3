"""Launch programs: shapes, the CPU backends, compiled kernels and their cache, the thread pool."""
