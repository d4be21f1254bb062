// Attention on tensor cores: a block takes 64 queries of a head, 16 a warp, and goes through the keys in tiles of 64, of which
// the next is copied while one is computed with. INPUT is the dtype, HEAD_DIM 64 or 128; USE_FUSED_SOFTMAX chooses between the
// forms of softmax_tile.cuh, USE_MMA_PV=0 computes the second product of the staged form without tensor cores.
#include "softmax_tile.cuh"

constexpr int THREADS = 32 * WARPS;
constexpr int RESIDENTS = HEAD_DIM == 64 ? 4 : 2;  // blocks of a multiprocessor: up to 128 registers a thread, or 255
constexpr int CHUNKS = HEAD_DIM / 8;  // of 16 bytes to a row
constexpr int TILE_CHUNKS = TILE * CHUNKS;

// Distances in elements; rows begin at multiples of 16 bytes.
struct Source {
    const unsigned short* data;
    long long batch, head, row;
};

struct Arguments {
    Source q, k, v;
    unsigned* out;
    float scale;  // of a product of a query and a key to an exponent of 2
    unsigned heads, blocks;  // blocks: to a head
    int queries, keys;
    unsigned causal;

    // Keys that a query sees, from the first on.
    __device__ __forceinline__ int seen(int query) const {
        return causal ? min(keys, query + keys - queries + 1) : keys;
    }
};

// The first of the two rows of a fragment that a thread holds; the other one is 8 further on.
__device__ __forceinline__ int row_of(const Arguments& args, unsigned thread) {
    return blockIdx.x % args.blocks * TILE + thread / 32 * 16 + thread % 32 / 4;
}

// Chunks are swizzled, so that eight rows of one chunk lie in different banks. Further chunks of a row, and the row 8 n further on,
// are place ^ chunk, where that has no bit of the first chunk's number, and place + 8 n CHUNKS.
__device__ __forceinline__ unsigned place(unsigned row, unsigned chunk) {
    return row * CHUNKS + (chunk ^ (row & 7));
}

// What a thread copies of every tile: one chunk of every eighth or sixteenth row. The tile's address is the same in all threads,
// which keep no more than a distance from it.
struct Fetch {
    static constexpr int rows_apart = THREADS / CHUNKS;
    static_assert(rows_apart % 8 == 0, "the swizzle is the same in all rows of a thread");
    const unsigned short* tile;
    long long stride;

    __device__ __forceinline__ Fetch(const Source& from, unsigned number, unsigned heads, unsigned first)
        : tile(from.data + number / heads * from.batch + number % heads * from.head + first * from.row), stride(from.row) {}

    // The next tile, of which `count` rows are there; the others are zeros.
    __device__ __forceinline__ void next(uint4* target, int count) {
        const unsigned thread = anew(threadIdx.x);
        const int row = thread / CHUNKS, chunk = thread % CHUNKS;
        const unsigned short* source = tile + row * static_cast<int>(stride) + 8 * chunk;
        target += place(row, chunk);
#pragma unroll
        for (int i = 0; i < TILE; i += rows_apart) {
            copy_or_zero(target + i * CHUNKS, reinterpret_cast<const uint4*>(source + i * stride), row + i < count);
        }
        tile += TILE * stride;
    }
};

using Output = float[HEAD_DIM / 8][4];

// Q K^T: a fragment of K^T is a row of K. Q is read from shared memory for every tile; kept, it would take the registers that a
// fourth block needs.
__device__ __forceinline__ void multiply_keys(Scores& scores, const uint4* queries, const uint4* keys) {
    const unsigned thread = anew(threadIdx.x), lane = thread % 32;
    const unsigned query_place = place(thread / 32 * 16 + lane % 16, lane / 16), key_place = place(lane % 8, lane / 8);
#pragma unroll
    for (auto& part : scores) {
        part[0] = part[1] = part[2] = part[3] = 0.0f;
    }
#pragma unroll
    for (int step = 0; step < HEAD_DIM / 16; step += 2) {
        unsigned query[2][4];
        load_matrices(query[0], queries + (query_place ^ 2 * step));
        load_matrices(query[1], queries + (query_place ^ (2 * step + 2)));
#pragma unroll
        for (int part = 0; part < TILE / 8; ++part) {
            unsigned words[4];
            load_matrices(words, keys + (key_place ^ 2 * step) + 8 * part * CHUNKS);
            multiply_add<INPUT>(scores[part], query[0], words[0], words[1]);
            multiply_add<INPUT>(scores[part], query[1], words[2], words[3]);
        }
    }
}

// Scores of keys that are not seen, or not there, become -inf; `from` is the tile's first key.
__device__ __forceinline__ void mask(Scores& scores, const Arguments& args, int from) {
    const unsigned thread = anew(threadIdx.x);
    const int row = row_of(args, thread), pair = from + thread % 4 * 2;
    const int seen[2] = {args.seen(row), args.seen(row + 8)};
#pragma unroll
    for (int part = 0; part < TILE / 8; ++part) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            if (8 * part + pair + i % 2 >= seen[i / 2]) {
                scores[part][i] = minus_infinity();
            }
        }
    }
}

// What was summed up under a smaller maximum counts for less.
__device__ __forceinline__ void rescale(Output& out, const float (&factor)[2]) {
#pragma unroll
    for (auto& part : out) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            part[i] *= factor[i / 2];
        }
    }
}

#if USE_FUSED_SOFTMAX || USE_MMA_PV
// P V: a fragment of V is a column of it, which the transposing load gives.
__device__ __forceinline__ void add_values(Output& out, const Softmax&, const Weights& weights, const uint4* values) {
    const unsigned thread = anew(threadIdx.x), value_place = place(thread % 16, thread % 32 / 16);
#pragma unroll
    for (int step = 0; step < STEPS; ++step) {
#pragma unroll
        for (int part = 0; part < HEAD_DIM / 8; part += 2) {
            unsigned words[4];
            load_transposed(words, values + (value_place ^ part) + 16 * step * CHUNKS);
            multiply_add<INPUT>(out[part], weights[step], words[0], words[1]);
            multiply_add<INPUT>(out[part + 1], weights[step], words[2], words[3]);
        }
    }
}
#else
// P V key by key, from shared memory.
__device__ __forceinline__ void add_values(Output& out, const Softmax& softmax, const Weights&, const uint4* values) {
    const unsigned group = threadIdx.x % 32 / 4, pair = threadIdx.x % 4;
#pragma unroll 1
    for (int key = 0; key < TILE; key += 2) {
        float weight[2][2], value[2];
        Format<INPUT>::widen(softmax.word(group, key), weight[0]);
        Format<INPUT>::widen(softmax.word(group + 8, key), weight[1]);
#pragma unroll
        for (int part = 0; part < HEAD_DIM / 8; ++part) {
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                if (i % 4 == 0) {
                    Format<INPUT>::widen(reinterpret_cast<const unsigned*>(values + place(key + i / 4, part))[pair], value);
                }
                out[part][i % 4] += weight[i % 4 / 2][i / 4] * value[i % 2];
            }
        }
    }
}
#endif

// Rows without a key are 0; a row whose scores are all -inf is 0 / 0.
__device__ __forceinline__ void store(const Arguments& args, const Output& out, const float (&total)[2]) {
    const unsigned thread = anew(threadIdx.x);
    const int row = row_of(args, thread);
    const long long rows = static_cast<long long>(anew(blockIdx.x) / args.blocks) * args.queries;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int at = row + 8 * half;
        const float factor = args.seen(at) > 0 ? 1.0f / total[half] : 0.0f;
        if (at < args.queries) {
            unsigned* words = args.out + (rows + at) * (HEAD_DIM / 2) + thread % 4;
#pragma unroll
            for (int part = 0; part < HEAD_DIM / 8; ++part) {
                const float pair[2] = {out[part][2 * half] * factor, out[part][2 * half + 1] * factor};
                words[4 * part] = Format<INPUT>::narrow(pair);
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENTS) attention(const __grid_constant__ Arguments args) {
    wait_for_previous();
    const unsigned head = blockIdx.x / args.blocks;
    const int first = blockIdx.x % args.blocks * TILE;
    Fetch keys(args.k, head, args.heads, 0), values(args.v, head, args.heads, 0);
    uint4 *queries = dynamic_shared(), *key_tiles = queries + TILE_CHUNKS, *value_tiles = queries + 3 * TILE_CHUNKS;
    Softmax softmax(queries + 5 * TILE_CHUNKS);
    Output out = {};
    const int most = args.seen(min(first + TILE, args.queries) - 1);
    const int count = most > 0 ? (most + TILE - 1) / TILE : 0;
    if (count) {
        Fetch(args.q, head, args.heads, first).next(queries, args.queries - first);
        keys.next(key_tiles, args.keys);
        values.next(value_tiles, args.keys);
    }
    end_group();
    for (int tile = 0; tile < count; ++tile) {
        const int here = tile % 2 * TILE_CHUNKS, there = TILE_CHUNKS - here;
        if (tile + 1 < count) {
            keys.next(key_tiles + there, args.keys - (tile + 1) * TILE);
            values.next(value_tiles + there, args.keys - (tile + 1) * TILE);
        }
        end_group();
        wait_groups<1>();
        __syncthreads();
        Scores scores;
        multiply_keys(scores, queries, key_tiles + here);
        if (tile + 2 >= count) {  // the block's first query sees at most 63 keys fewer than its last
            mask(scores, args, tile * TILE);
        }
        float factor[2];
        Weights weights;
        softmax.take<INPUT>(scores, args.scale, factor, weights);
        rescale(out, factor);
        add_values(out, softmax, weights, value_tiles + here);
        __syncthreads();
    }
    store(args, out, {softmax.total(0), softmax.total(1)});
}
