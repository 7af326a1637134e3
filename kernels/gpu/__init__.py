"""Run programs on a CUDA device: device arrays, CUDA text, NVRTC and CuPy."""
