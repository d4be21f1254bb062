// Softmax that reads what fits in shared memory once. Rows that a block can hold are each one block's (or a part of a
// block's); longer ones are shared by teams of blocks, all on the GPU at once, of which each keeps the end of its share
// and reads the rest again.
// INPUT and OUTPUT are Half, Bfloat or float, defined when this is compiled.
#include "exchange.cuh"
#include "rows.cuh"

// Ask for the whole vectors of this thread: `step` apart, from number `vector` on, to `kept` and on.
__device__ __forceinline__ void request(const Chunk<INPUT>& chunk, long long vector, unsigned step, uint4* kept,
                                        Policy policy) {
    for (long long at = vector; at < chunk.end; at += step) {
        if (chunk.is_whole(at)) {
            copy_async(kept + (at - vector), chunk.place(at), policy);
        }
    }
}

// Bring the others, behind all requests, as in Chunk::load: at most the row's first and its last vector. Looking for them
// where there are none takes 1 to 4 % of a short row's time; to `ask` first takes registers that split rows do not have.
template <bool ask>
__device__ __forceinline__ void bring_ragged(const Chunk<INPUT>& chunk, long long vector, unsigned step, uint4* kept) {
    if (ask && chunk.is_whole(chunk.first) && chunk.is_whole(chunk.end - 1)) {
        return;
    }
    for (long long at = vector; at < chunk.end; at += step) {
        if (!chunk.is_whole(at)) {
            constexpr unsigned fill = Format<INPUT>::minus_infinity;
            unsigned words[4] = {fill, fill, fill, fill};
            chunk.load_ragged(at, words);
            kept[at - vector] = {words[0], words[1], words[2], words[3]};
        }
    }
}

// Take what `request` brought this thread into its running pair. A thread reads only what it asked for itself.
__device__ __forceinline__ Statistics take_kept(const Chunk<INPUT>& chunk, long long vector, unsigned step,
                                                const uint4* kept, Statistics running) {
    for (long long at = vector; at < chunk.end; at += step) {
        const uint4 raw = kept[at - vector];
        const unsigned words[1][4] = {{raw.x, raw.y, raw.z, raw.w}};
        running = take<INPUT>(running, words);
    }
    return running;
}

__device__ __forceinline__ void write_kept(const Arguments& a, const Chunk<INPUT>& chunk, long long vector,
                                           unsigned step, const uint4* kept, Scale scale) {
    for (long long at = vector; at < chunk.end; at += step) {
        const uint4 raw = kept[at - vector];
        const unsigned words[4] = {raw.x, raw.y, raw.z, raw.w};
        normalise_vector<INPUT, OUTPUT>(a, chunk, at, words, scale);
    }
}

// A group of threads to a row, all of it in shared memory.
extern "C" __global__ void __launch_bounds__(512, 2) rows_in_shared(const __grid_constant__ Arguments a) {
    start_dependents();
    const unsigned number = threadIdx.x / a.group, lane = threadIdx.x % a.group;
    const unsigned unit = blockIdx.x * (blockDim.x / a.group) + number;
    const Chunk<INPUT> row(a, min(unit, a.rows - 1), 0, a.chunk_vectors);
    // A group without a row has no first vector.
    const long long first = unit < a.rows ? lane : row.end;
    uint4* kept = dynamic_shared() + number * a.chunk_vectors + lane;
    wait_for_previous();
    request(row, first, a.group, kept, a.retain ? l2_last() : l2_normal());
    bring_ragged<true>(row, first, a.group, kept);
    wait_copies();
    const Statistics own = take_kept(row, first, a.group, kept, nothing());
    const Scale scale = scale_of(over_group<MergePairs>(own, a.group));
    write_kept(a, row, first, a.group, kept, scale);
}

// A block's share of a row: what is streamed, and behind it what is kept.
struct Share {
    Chunk<INPUT> stream, kept;

    __device__ __forceinline__ Share(const Arguments& a, unsigned row)
        : stream(a, row, blockIdx.x % a.chunks * a.chunk_vectors, a.chunk_vectors), kept(stream) {
        kept.first = max(stream.first, stream.end - a.kept);
        stream.end = kept.first;
    }
    __device__ __forceinline__ unsigned tiles() const {
        return static_cast<unsigned>((stream.end - stream.first + UNROLL * blockDim.x - 1) / (UNROLL * blockDim.x));
    }
    // The vector with which this thread begins a tile.
    __device__ __forceinline__ long long of_tile(unsigned tile) const {
        return stream.first + static_cast<long long>(tile) * UNROLL * blockDim.x + threadIdx.x;
    }
};

__device__ __forceinline__ Statistics read_share(const Arguments& a, const Share& share, uint4* memory) {
    // What is streamed must stay in L2 for the second read; what is kept need not, and leaves room for what is written.
    request(share.kept, share.kept.first + threadIdx.x, blockDim.x, memory, l2_first());
    bring_ragged<false>(share.kept, share.kept.first + threadIdx.x, blockDim.x, memory);
    Statistics own = nothing();
    for (unsigned tile = 0; tile < share.tiles(); ++tile) {
        unsigned words[UNROLL][4];
        share.stream.load(share.of_tile(tile), blockDim.x, words, PolicyLoad{l2_last()});
        own = take<INPUT>(own, words);
    }
    wait_copies();
    return take_kept(share.kept, share.kept.first + threadIdx.x, blockDim.x, memory, own);
}

// What was streamed from its end, which L2 has still.
__device__ __forceinline__ void write_share(const Arguments& a, const Share& share, const uint4* memory, Scale scale) {
    for (unsigned tile = share.tiles(); tile-- > 0;) {
        normalise_tile<INPUT, OUTPUT>(a, share.stream, share.of_tile(tile), blockDim.x, scale, PolicyLoad{l2_first()});
    }
    write_kept(a, share.kept, share.kept.first + threadIdx.x, blockDim.x, memory, scale);
}

// A team of blocks to a row, teams take rows in turn.
extern "C" __global__ void __launch_bounds__(512, 2) split_rows(const __grid_constant__ Arguments a) {
    overlap();
    const unsigned& last = Exchange(a.words, blockIdx.x, a.chunks, 0).last_tag();
    __syncthreads();
    unsigned tag = last;
    uint4* memory = dynamic_shared() + threadIdx.x;
    for (unsigned row = blockIdx.x / a.chunks; row < a.rows; row += gridDim.x / a.chunks) {
        const Statistics own = read_share(a, Share(a, anew(row)), memory);
        const Exchange exchange(a.words, anew(blockIdx.x), a.chunks, ++tag);
        const Scale scale = scale_of(exchange.over_team(over_group<MergePairs>(own, blockDim.x)));
        write_share(a, Share(a, anew(row)), memory, scale);
    }
    Exchange(a.words, blockIdx.x, a.chunks, tag).finish();
}
