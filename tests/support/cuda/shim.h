// The parts of CUDA C++ that kernels use beyond C++, for g++; any other part does not compile.
// shim.cpp implements them.
#pragma once

#define __device__
#define __global__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define UNWATCHED __attribute__((no_sanitize("address", "undefined")))

struct Place {
    unsigned x, y, z;
};

// The position of the running lane.
struct Now {
    Place thread, block, threads, blocks;
};
extern "C" Now shim_now;
#define threadIdx shim_now.thread
#define blockIdx shim_now.block
#define blockDim shim_now.threads
#define gridDim shim_now.blocks

extern "C" unsigned __ballot_sync(unsigned mask, int predicate);

__forceinline__ int __popc(unsigned x) { return __builtin_popcount(x); }
__forceinline__ double __dadd_rn(double x, double y) { return x + y; }
__forceinline__ double __dmul_rn(double x, double y) { return x * y; }
