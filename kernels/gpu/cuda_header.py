"""The functions that CUDA kernels call, as text that precedes each kernel."""

from __future__ import annotations

from typing import Final

from skipstone.kernels.pack.keys import EDGE

HEADER: Final = """\
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;

__device__ __forceinline__ u32 vote(bool answer) { return __ballot_sync(0xffffffffu, answer); }
"""

SETS: Final = f"""
// How many ends of runs are less than x. The directory (kernels/pack/keys.py) tells between which
// ends to look.
template <class T>
__device__ __forceinline__ i64 below(T x, const T* ends, const int* lines, const double* frame)
{{
    // Rounded twice, as on the host.
    double at = __dadd_rn(__dmul_rn((double)x - frame[0], frame[1]), {EDGE});
    at = at > 0.0 ? at : 0.0;
    at = at < frame[2] ? at : frame[2];
    const i64 line = ((i64)at >> 16) << 4;
    i64 k = lines[line], stop = lines[line + 16];
    k ^= k >> 63;
    stop ^= stop >> 63;
    while (k < stop) {{
        const i64 middle = (k + stop) >> 1;
        if (ends[middle] < x) k = middle + 1;
        else stop = middle;
    }}
    return k;
}}

__device__ __forceinline__ i64 runs(const int* lines, const double* frame)
{{
    return lines[((i64)frame[2] + 2) >> 16 << 4];
}}

// Of k runs that end below `low`.
template <class T>
__device__ __forceinline__ bool any_in(
    i64 k, T high, const T* firsts, const int* lines, const double* frame)
{{
    return k < runs(lines, frame) && firsts[k] <= high;
}}

template <class T>
__device__ __forceinline__ bool not_all_in(
    i64 k, T low, T high, const T* firsts, const T* lasts, const int* lines, const double* frame)
{{
    return !(k < runs(lines, frame) && firsts[k] <= low && high <= lasts[k]);
}}
"""
