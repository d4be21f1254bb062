// The part of a row that a group of threads works on, in 16-byte vectors, whatever the row's alignment.
#pragma once

#include "numeric.cuh"

// One argument for all three kernels, laid out as `ARGUMENTS` of the host side packs it.
struct Arguments {
    const void* input;
    void* output;       // contiguous
    float2* partials;   // of every chunk: (maximum, sum)
    float2* scales;     // of every row: (what to subtract, one over the sum)
    long long columns;
    long long row_stride;     // of the input, in elements
    long long chunk_vectors;  // vectors to a chunk
    unsigned rows;
    unsigned chunks;  // to a row
    unsigned units;   // rows * chunks
    unsigned group;   // threads to a chunk
    unsigned lanes;   // threads to a row, in the second kernel
};

// Vectors in flight a thread: 64 bytes.
constexpr int UNROLL = 4;

// A row is covered by aligned vectors: the first may begin `lead` elements before the row, the last end behind it.
template <typename T>
struct Chunk {
    static constexpr int width = 16 / sizeof(T);

    const T* origin;  // of vector 0: the row's address, rounded down to 16 bytes
    long long row;
    long long columns;
    long long lead;
    long long first, end;              // vectors of this chunk
    long long whole_first, whole_end;  // vectors of the row that lie within it with all their elements

    __device__ __forceinline__ Chunk(const Arguments& a, unsigned unit) : row(unit / a.chunks), columns(a.columns) {
        const T* start = static_cast<const T*>(a.input) + row * a.row_stride;
        lead = (reinterpret_cast<unsigned long long>(start) & 15) / sizeof(T);
        origin = start - lead;
        first = (unit % a.chunks) * a.chunk_vectors;
        end = min(first + a.chunk_vectors, (lead + columns + width - 1) / width);
        whole_first = lead != 0;
        whole_end = (lead + columns) / width;
    }

    __device__ __forceinline__ bool is_whole(long long vector) const {
        return vector >= whole_first && vector < whole_end;
    }

    // Column of a vector's first element; outside the row for some elements of a vector that is not whole.
    __device__ __forceinline__ long long column(long long vector) const { return vector * width - lead; }

    // UNROLL vectors, `step` apart, as words; what lies outside the chunk or the row reads as -inf.
    __device__ __forceinline__ void load(long long vector, unsigned step, unsigned (&words)[UNROLL][4]) const {
#pragma unroll
        for (int j = 0; j < UNROLL; ++j) {
            const long long at = vector + j * step;
            constexpr unsigned fill = Format<T>::minus_infinity;
            uint4 raw = {fill, fill, fill, fill};
            if (at < end && is_whole(at)) {
                raw = __ldg(reinterpret_cast<const uint4*>(origin) + at);
            }
            words[j][0] = raw.x, words[j][1] = raw.y, words[j][2] = raw.z, words[j][3] = raw.w;
        }
        // Behind all the loads above, so that a ragged vector does not wait between two of them.
#pragma unroll
        for (int j = 0; j < UNROLL; ++j) {
            const long long at = vector + j * step;
            if (at < end && !is_whole(at)) {
                load_ragged(at, words[j]);
            }
        }
    }

    __device__ __forceinline__ void load_ragged(long long vector, unsigned (&words)[4]) const {
        constexpr unsigned bits = 8 * sizeof(T), mask = ~0u >> (32 - bits);
#pragma unroll
        for (int i = 0; i < width; ++i) {
            const long long at = column(vector) + i;
            if (at >= 0 && at < columns) {
                unsigned element;
                if constexpr (sizeof(T) == 2) {
                    element = origin[vector * width + i].bits;
                } else {
                    element = __float_as_uint(origin[vector * width + i]);
                }
                const unsigned shift = i % Format<T>::packed * bits;
                words[i / Format<T>::packed] = (words[i / Format<T>::packed] & ~(mask << shift)) | element << shift;
            }
        }
    }

    static __device__ __forceinline__ void widen(const unsigned (&words)[4], float (&values)[width]) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            Format<T>::widen(words[i], values + i * Format<T>::packed);
        }
    }
};

// Write `width` values to columns `column`... of a row that begins at `row`; `whole` says that all of them are in it.
template <typename T, int width>
__device__ __forceinline__ void store(T* row, long long column, long long columns, bool whole,
                                      const float (&values)[width]) {
    constexpr int packed = Format<T>::packed;
    T* target = row + column;
    // Streaming stores: nobody reads them back, and the input still to be read should keep its place in L2.
    if (whole && (reinterpret_cast<unsigned long long>(target) & 15) == 0) {
#pragma unroll
        for (int i = 0; i < width; i += 4 * packed) {
            const float* part = values + i;
            const uint4 words = {Format<T>::narrow(part), Format<T>::narrow(part + packed),
                                 Format<T>::narrow(part + 2 * packed), Format<T>::narrow(part + 3 * packed)};
            __stcs(reinterpret_cast<uint4*>(target + i), words);
        }
        return;
    }
#pragma unroll
    for (int i = 0; i < width; ++i) {
        if (column + i >= 0 && column + i < columns) {
            if constexpr (sizeof(T) == 2) {
                const float pair[2] = {values[i], 0.0f};
                target[i].bits = static_cast<unsigned short>(Format<T>::narrow(pair));
            } else {
                target[i] = values[i];
            }
        }
    }
}
