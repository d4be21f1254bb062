// The softmax between the two products of attention, for 16 rows of a warp and a tile of keys, in two forms. Both take the scores
// as the first product leaves them and give P as the second one takes it, with the factor by which what was summed up so far is
// to be rescaled. They differ in where scores and statistics lie on the way.
#pragma once

#include "mma.cuh"

constexpr int TILE = 64;  // keys of a tile, and queries of a block
constexpr int WARPS = TILE / 16;
constexpr int STEPS = TILE / 16;  // of the second product
using Scores = float[TILE / 8][4];
using Weights = unsigned[STEPS][4];

#if USE_FUSED_SOFTMAX

constexpr int SOFTMAX_BYTES = 0;

// Scores and statistics stay in registers: a row lies in the four lanes of a group, which exchange maxima by two shuffles. A
// lane's sums are those of its own columns until `total`.
struct Softmax {
    float maximum[2], sum[2];

    __device__ __forceinline__ explicit Softmax(uint4*) {
        maximum[0] = maximum[1] = minus_infinity();
        sum[0] = sum[1] = 0.0f;
    }

    template <typename T>
    __device__ __forceinline__ void take(Scores& scores, float scale, float (&factor)[2], Weights& weights) {
        float origin[2];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            float top = maximum[half];
#pragma unroll
            for (auto& part : scores) {
                top = fmaxf(top, fmaxf(part[2 * half], part[2 * half + 1]));
            }
            top = fmaxf(top, __shfl_xor_sync(~0u, top, 1));
            top = fmaxf(top, __shfl_xor_sync(~0u, top, 2));
            origin[half] = anchor(top) * scale;
            factor[half] = exp2_flushed(maximum[half] * scale - origin[half]);
            sum[half] *= factor[half];
            maximum[half] = top;
        }
#pragma unroll
        for (int word = 0; word < 4 * STEPS; ++word) {
            const int half = word % 2;
            const float* pair = &scores[word / 2][2 * half];
            const float power[2] = {exp2_flushed(pair[0] * scale - origin[half]),
                                    exp2_flushed(pair[1] * scale - origin[half])};
            sum[half] += power[0] + power[1];
            weights[word / 4][word % 4] = Format<T>::narrow(power);
        }
    }

    __device__ __forceinline__ float total(int half) const {
        const float two = sum[half] + __shfl_xor_sync(~0u, sum[half], 1);
        return two + __shfl_xor_sync(~0u, two, 2);
    }
};

#else

// Rows of 9 chunks: eight rows of one chunk lie in different banks.
constexpr int ROW_CHUNKS = TILE / 8 + 1;
struct Strip {
    uint4 rows[16 * ROW_CHUNKS];
    float maximum[16], sum[16], factor[16];
};
constexpr int SOFTMAX_BYTES = WARPS * sizeof(Strip);

// Scores go to shared memory as half, whatever the inputs are; rows are taken one after the other by all lanes, and P takes the
// place of the scores. A warp has its own rows and its own statistics: nothing is shared between warps.
struct Softmax {
    Strip* own;
    unsigned lane;

    __device__ __forceinline__ explicit Softmax(uint4* shared)
        : own(reinterpret_cast<Strip*>(shared) + threadIdx.x / 32), lane(threadIdx.x % 32) {
        if (lane < 16) {
            own->maximum[lane] = minus_infinity();
            own->sum[lane] = 0.0f;
        }
        __syncwarp();
    }

    // The word of a row that holds an even column and the next one.
    __device__ __forceinline__ unsigned& word(unsigned row, unsigned column) const {
        return reinterpret_cast<unsigned*>(own->rows + row * ROW_CHUNKS)[column / 2];
    }

    template <typename T>
    __device__ __forceinline__ void take(Scores& scores, float scale, float (&factor)[2], Weights& weights) {
        const unsigned group = lane / 4, pair = lane % 4 * 2;
#pragma unroll
        for (int part = 0; part < TILE / 8; ++part) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const float scaled[2] = {scores[part][2 * half] * scale, scores[part][2 * half + 1] * scale};
                word(group + 8 * half, 8 * part + pair) = narrow_half(scaled);
            }
        }
        __syncwarp();
#pragma unroll 1
        for (int row = 0; row < 16; ++row) {
            normalise_row<T>(row);
        }
        __syncwarp();
        factor[0] = own->factor[group];
        factor[1] = own->factor[group + 8];
#pragma unroll
        for (int step = 0; step < STEPS; ++step) {
            load_matrices(weights[step], own->rows + (lane % 16) * ROW_CHUNKS + 2 * step + lane / 16);
        }
    }

    template <typename T>
    __device__ __forceinline__ void normalise_row(int row) {
        float x[2];
        unsigned& place = word(row, 2 * lane);
        widen_half(place, x);
        float top = fmaxf(x[0], x[1]);
#pragma unroll
        for (int apart = 16; apart; apart /= 2) {
            top = fmaxf(top, __shfl_xor_sync(~0u, top, apart));
        }
        const float before = own->maximum[row];
        top = fmaxf(top, before);
        const float origin = anchor(top);
        const float power[2] = {exp2_flushed(x[0] - origin), exp2_flushed(x[1] - origin)};
        float sum = power[0] + power[1];
#pragma unroll
        for (int apart = 16; apart; apart /= 2) {
            sum += __shfl_xor_sync(~0u, sum, apart);
        }
        place = Format<T>::narrow(power);
        __syncwarp();  // every lane has read the statistics that one lane now replaces
        if (lane == 0) {
            own->factor[row] = exp2_flushed(before - origin);
            own->sum[row] = own->sum[row] * own->factor[row] + sum;
            own->maximum[row] = top;
        }
    }

    __device__ __forceinline__ float total(int half) const { return own->sum[lane / 4 + 8 * half]; }
};

#endif
