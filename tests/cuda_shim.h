// What CUDA C++ gives a kernel's text beyond C++, for g++. What is not here does not compile; cuda_shim.cpp does the work.
#pragma once

#define __device__
#define __global__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define UNWATCHED __attribute__((no_sanitize("address", "undefined")))

struct Place {
    unsigned x, y, z;
};

// Where the lane that runs stands.
struct Now {
    Place thread, block, threads, blocks;
};
extern "C" Now shim_now;
#define threadIdx shim_now.thread
#define blockIdx shim_now.block
#define blockDim shim_now.threads
#define gridDim shim_now.blocks

extern "C" {
unsigned __ballot_sync(unsigned mask, int predicate);
void __syncwarp(unsigned mask = 0xffffffffu);
unsigned long long shim_shuffle(unsigned mask, unsigned long long bits, int source);
}

template <class T> __forceinline__ T __shfl_sync(unsigned mask, T value, int source)
{
    unsigned long long bits = 0;
    __builtin_memcpy(&bits, &value, sizeof value);
    bits = shim_shuffle(mask, bits, source & 31);
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
}

// A lane without a lane so far below keeps its own value.
template <class T> __forceinline__ T __shfl_up_sync(unsigned mask, T value, unsigned delta)
{
    const int source = (int)(threadIdx.x & 31) - (int)delta;
    return __shfl_sync(mask, value, source < 0 ? (int)(threadIdx.x & 31) : source);
}

__forceinline__ int __popc(unsigned x) { return __builtin_popcount(x); }
__forceinline__ int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
__forceinline__ int __ffs(int x) { return __builtin_ffs(x); }
__forceinline__ int __ffsll(long long x) { return __builtin_ffsll(x); }
__forceinline__ double __dadd_rn(double x, double y) { return x + y; }
__forceinline__ double __dmul_rn(double x, double y) { return x * y; }
