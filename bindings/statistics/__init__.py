"""Statistics of containers: made from every kind of input, packed for kernels, saved, loaded."""
