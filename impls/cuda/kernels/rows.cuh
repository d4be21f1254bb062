// The part of a row that a group of threads works on, in 16-byte vectors, whatever the row's alignment.
#pragma once

#include "groups.cuh"

// One argument for all kernels, laid out as `ARGUMENTS` of the host side packs it. Each kernel uses what it needs.
struct Arguments {
    const void* input;
    void* output;               // contiguous
    void* partials;             // of every chunk a number or a (maximum, sum), and what they are merged to
    unsigned long long* words;  // through which the blocks of a cooperative launch speak
    long long columns;
    long long row_stride;     // of the input, in elements
    long long chunk_vectors;  // vectors to a chunk
    long long finals;         // place in `partials` of what every row's parts came to: (maximum, sum) or maximum
    long long sums;           // place of the sums of every chunk, where they are apart from the maxima
    long long totals;         // place of the sums of every row
    unsigned rows;
    unsigned chunks;  // to a row
    unsigned units;   // rows * chunks
    unsigned group;   // threads to a chunk
    unsigned lanes;   // threads that merge a row's parts
    unsigned kept;    // vectors of a chunk that stay in shared memory
    unsigned retain;  // whether lines of the input are loaded to stay in the second-level cache
};

// The start of a kernel: the next launch may begin, and the previous one has ended.
__device__ __forceinline__ void overlap() {
    start_dependents();
    wait_for_previous();
}

// This thread's group of `group` threads, numbered through the grid.
__device__ __forceinline__ unsigned group_number(unsigned group) {
    return blockIdx.x * (blockDim.x / group) + threadIdx.x / group;
}

// Vectors in flight a thread: 64 bytes.
constexpr int UNROLL = 4;

struct PlainLoad {
    __device__ __forceinline__ uint4 operator()(const uint4* place) const { return __ldg(place); }
};

struct PolicyLoad {
    Policy policy;
    __device__ __forceinline__ uint4 operator()(const uint4* place) const { return load_with(place, policy); }
};

// A row is covered by aligned vectors: the first may begin `lead` elements before the row, the last end behind it.
template <typename T>
struct Chunk {
    static constexpr int width = 16 / sizeof(T);

    const T* origin;  // of vector 0: the row's address, rounded down to 16 bytes
    long long row;
    long long columns;
    int lead;
    long long first, end;              // vectors of this chunk
    int whole_first;                   // of the vectors of the row that lie within it with all their elements
    long long whole_end;

    // Chunk number `unit` of all rows, in their order.
    __device__ __forceinline__ Chunk(const Arguments& a, unsigned unit)
        : Chunk(a, unit / a.chunks, (unit % a.chunks) * a.chunk_vectors, a.chunk_vectors) {}

    // `count` vectors of a row from number `from` on, as far as it has them.
    __device__ __forceinline__ Chunk(const Arguments& a, long long row, long long from, long long count)
        : row(row), columns(a.columns), first(from) {
        const T* start = static_cast<const T*>(a.input) + row * a.row_stride;
        lead = static_cast<int>((reinterpret_cast<unsigned long long>(start) & 15) / sizeof(T));
        origin = start - lead;
        end = min(first + count, (lead + columns + width - 1) / width);
        whole_first = lead != 0;
        whole_end = (lead + columns) / width;
    }

    __device__ __forceinline__ bool is_whole(long long vector) const {
        return vector >= whole_first && vector < whole_end;
    }

    __device__ __forceinline__ const uint4* place(long long vector) const {
        return reinterpret_cast<const uint4*>(origin) + vector;
    }

    // Column of a vector's first element; outside the row for some elements of a vector that is not whole.
    __device__ __forceinline__ long long column(long long vector) const { return vector * width - lead; }

    // `count` vectors, `step` apart, as words; what lies outside the chunk or the row reads as -inf.
    template <int count, typename Load = PlainLoad>
    __device__ __forceinline__ void load(long long vector, unsigned step, unsigned (&words)[count][4],
                                         const Load& load_from = {}) const {
#pragma unroll
        for (int j = 0; j < count; ++j) {
            const long long at = vector + j * step;
            constexpr unsigned fill = Format<T>::minus_infinity;
            uint4 raw = {fill, fill, fill, fill};
            if (at < end && is_whole(at)) {
                raw = load_from(place(at));
            }
            words[j][0] = raw.x, words[j][1] = raw.y, words[j][2] = raw.z, words[j][3] = raw.w;
        }
        // Behind all the loads above, so that a ragged vector does not wait between two of them.
#pragma unroll
        for (int j = 0; j < count; ++j) {
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

    static __device__ __forceinline__ void widen(const unsigned (&words)[4], float* values) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            Format<T>::widen(words[i], values + i * Format<T>::packed);
        }
    }

    // The numbers of several vectors in a row.
    template <int count>
    static __device__ __forceinline__ void widen_all(const unsigned (&words)[count][4],
                                                     float (&values)[count * width]) {
#pragma unroll
        for (int j = 0; j < count; ++j) {
            widen(words[j], values + j * width);
        }
    }
};

// Take vectors into a thread's running pair, one after the other.
template <typename T, int count>
__device__ __forceinline__ Statistics take(Statistics running, const unsigned (&words)[count][4]) {
#pragma unroll
    for (int j = 0; j < count; ++j) {
        float values[Chunk<T>::width];
        Chunk<T>::widen(words[j], values);
        running = extended(running, values);
    }
    return running;
}

// Nobody reads what is written back, and the input that is still to be read should keep its place in L2.
struct StreamingStore {
    __device__ __forceinline__ void operator()(uint4* place, uint4 words) const { __stcs(place, words); }
};

struct PlainStore {
    __device__ __forceinline__ void operator()(uint4* place, uint4 words) const { *place = words; }
};

// Write `width` values to columns `column`... of a row that begins at `row`; `whole` says that all of them are in it.
template <typename T, int width, typename Store = StreamingStore>
__device__ __forceinline__ void store(T* row, long long column, long long columns, bool whole,
                                      const float (&values)[width], const Store& store_to = {}) {
    constexpr int packed = Format<T>::packed;
    T* target = row + column;
    if (whole && (reinterpret_cast<unsigned long long>(target) & 15) == 0) {
#pragma unroll
        for (int i = 0; i < width; i += 4 * packed) {
            const float* part = values + i;
            const uint4 words = {Format<T>::narrow(part), Format<T>::narrow(part + packed),
                                 Format<T>::narrow(part + 2 * packed), Format<T>::narrow(part + 3 * packed)};
            store_to(reinterpret_cast<uint4*>(target + i), words);
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

// Normalise one vector of a chunk and write it.
template <typename In, typename Out, typename Store = StreamingStore>
__device__ __forceinline__ void normalise_vector(const Arguments& a, const Chunk<In>& chunk, long long vector,
                                                 const unsigned (&words)[4], Scale scale, const Store& store_to = {}) {
    float values[Chunk<In>::width];
    Chunk<In>::widen(words, values);
#pragma unroll
    for (float& value : values) {
        value = scale.factor * Format<Out>::exp2(exponent(value, scale.origin));
    }
    Out* row = static_cast<Out*>(a.output) + chunk.row * a.columns;
    store<Out>(row, chunk.column(vector), a.columns, chunk.is_whole(vector), values, store_to);
}

// The same of several vectors, `step` apart from number `vector` on, as far as the chunk has them.
template <typename In, typename Out, int count, typename Store = StreamingStore>
__device__ __forceinline__ void normalise_vectors(const Arguments& a, const Chunk<In>& chunk, long long vector,
                                                  unsigned step, const unsigned (&words)[count][4], Scale scale,
                                                  const Store& store_to = {}) {
#pragma unroll
    for (int j = 0; j < count; ++j) {
        if (vector + j * step < chunk.end) {
            normalise_vector<In, Out>(a, chunk, vector + j * step, words[j], scale, store_to);
        }
    }
}

// Read UNROLL vectors from number `vector` on, `step` apart, normalise and write them.
template <typename In, typename Out, typename Load = PlainLoad>
__device__ __forceinline__ void normalise_tile(const Arguments& a, const Chunk<In>& chunk, long long vector,
                                               unsigned step, Scale scale, const Load& load_from = {}) {
    unsigned words[UNROLL][4];
    chunk.load(vector, step, words, load_from);
    normalise_vectors<In, Out>(a, chunk, vector, step, words, scale);
}

// Hand `use` the numbers of a chunk that are this thread's, those of UNROLL vectors at a time; `lane` of its group.
template <typename Use>
__device__ __forceinline__ void for_each_tile(const Arguments& a, const Chunk<INPUT>& chunk, unsigned lane, Use use) {
    for (long long vector = chunk.first + lane; vector < chunk.end; vector += UNROLL * a.group) {
        unsigned words[UNROLL][4];
        chunk.load(vector, a.group, words);
        float values[UNROLL * Chunk<INPUT>::width];
        Chunk<INPUT>::widen_all(words, values);
        use(values);
    }
}

// Read this thread's part of a chunk once more, normalise and write it.
__device__ __forceinline__ void normalise_chunk(const Arguments& a, const Chunk<INPUT>& chunk, unsigned lane,
                                                Scale scale) {
    for (long long vector = chunk.first + lane; vector < chunk.end; vector += UNROLL * a.group) {
        normalise_tile<INPUT, OUTPUT>(a, chunk, vector, a.group, scale);
    }
}
