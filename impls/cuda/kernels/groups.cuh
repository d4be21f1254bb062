// Reductions over groups of neighbouring threads of a block, by shuffles within warps and one exchange between them.
//
// `size` is a power of two up to the block's, the same in the whole block, and every thread of the block must call.
// Every thread gets its group's result. Two calls with one PLACE need a barrier between them.
#pragma once

#include "numeric.cuh"

struct MergePairs {
    using Value = Statistics;
    static __device__ __forceinline__ Statistics neutral() { return nothing(); }
    static __device__ __forceinline__ Statistics join(Statistics a, Statistics b) { return merge(a, b); }
    static __device__ __forceinline__ Statistics partner(Statistics own, unsigned step) {
        return {__shfl_xor_sync(~0u, own.maximum, step), __shfl_xor_sync(~0u, own.sum, step)};
    }
};

struct Maximum {
    using Value = float;
    static __device__ __forceinline__ float neutral() { return minus_infinity(); }
    static __device__ __forceinline__ float join(float a, float b) { return fmaxf(a, b); }
    static __device__ __forceinline__ float partner(float own, unsigned step) {
        return __shfl_xor_sync(~0u, own, step);
    }
};

struct Sum {
    using Value = float;
    static __device__ __forceinline__ float neutral() { return 0.0f; }
    static __device__ __forceinline__ float join(float a, float b) { return a + b; }
    static __device__ __forceinline__ float partner(float own, unsigned step) {
        return __shfl_xor_sync(~0u, own, step);
    }
};

// Within a warp, by shuffles alone; `size` is 32 or less.
template <typename Operation>
__device__ __forceinline__ typename Operation::Value over_lanes(typename Operation::Value own, unsigned size) {
    for (unsigned step = size / 2; step > 0; step /= 2) {
        own = Operation::join(own, Operation::partner(own, step));
    }
    return own;
}

template <typename Operation, int PLACE = 0>
__device__ __forceinline__ typename Operation::Value over_group(typename Operation::Value own, unsigned size) {
    __shared__ typename Operation::Value warps[32];
    own = over_lanes<Operation>(own, min(size, 32u));
    if (size <= 32) {
        return own;
    }
    const unsigned count = size / 32, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (lane == 0) {
        warps[warp] = own;
    }
    __syncthreads();
    return over_lanes<Operation>(warps[warp / count * count + lane % count], count);
}

// A step of a reduction over levels: of every row, `count` parts at `from` become `merged` at `to`.
struct Level {
    long long from;
    long long to;
    unsigned count;
    unsigned merged;
};

// Parts that one block merges at a level.
constexpr unsigned FAN = 1024;

// One block's share of a level: FAN parts of a row to one.
template <typename Operation>
__device__ __forceinline__ void reduce_level(typename Operation::Value* parts, const Level& level) {
    const long long row = blockIdx.x / level.merged;
    const unsigned first = blockIdx.x % level.merged * FAN, end = min(first + FAN, level.count);
    typename Operation::Value total = Operation::neutral();
    for (unsigned part = first + threadIdx.x; part < end; part += blockDim.x) {
        total = Operation::join(total, parts[level.from + row * level.count + part]);
    }
    total = over_group<Operation>(total, blockDim.x);
    if (threadIdx.x == 0) {
        parts[level.to + blockIdx.x] = total;
    }
}
