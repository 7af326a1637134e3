"""Turn programs into machine code: packed statistics, code emission, caches and the thread pool."""
