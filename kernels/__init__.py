"""Machine code for programs: packed statistics, emission per backend, caches, the thread pool."""
