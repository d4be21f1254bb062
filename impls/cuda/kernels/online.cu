// Softmax with a running (maximum, sum) a thread: however long a row, it is read once for both, and a second time, from
// its end, to normalise. One kernel where a group of threads has a whole row, two where blocks share one.
// INPUT and OUTPUT are Half, Bfloat or float, defined when this is compiled.
#include "rows.cuh"

// UNROLL vectors into a thread's running pair.
__device__ __forceinline__ Statistics take_tile(const Chunk<INPUT>& row, long long vector, unsigned step,
                                                Statistics running) {
    unsigned words[UNROLL][4];
    row.load(vector, step, words);
    return take<INPUT>(running, words);
}

// A group of threads to a row.
extern "C" __global__ void __launch_bounds__(256) online_rows(const __grid_constant__ Arguments a) {
    overlap();
    const unsigned unit = group_number(a.group);
    const Chunk<INPUT> row(a, min(unit, a.rows - 1), 0, a.chunk_vectors);
    const long long lane = threadIdx.x % a.group, step = UNROLL * a.group;
    const long long tiles = unit < a.rows ? (row.end + step - 1) / step : 0;
    Statistics running = nothing();
    for (long long tile = 0; tile < tiles; ++tile) {
        running = take_tile(row, tile * step + lane, a.group, running);
    }
    const Scale scale = scale_of(over_group<MergePairs>(running, a.group));
    for (long long tile = tiles; tile-- > 0;) {
        normalise_tile<INPUT, OUTPUT>(a, row, tile * step + lane, a.group, scale);
    }
}

// The blocks of a row take its tiles in turn, so that all of them are at its end at the same time.
extern "C" __global__ void __launch_bounds__(256) online_statistics(const __grid_constant__ Arguments a) {
    overlap();
    const Chunk<INPUT> row(a, blockIdx.x / a.chunks, 0, a.chunk_vectors);
    const long long tile = UNROLL * blockDim.x, step = tile * a.chunks;
    Statistics running = nothing();
    for (long long first = blockIdx.x % a.chunks * tile; first < row.end; first += step) {
        running = take_tile(row, first + threadIdx.x, blockDim.x, running);
    }
    running = over_group<MergePairs>(running, blockDim.x);
    if (threadIdx.x == 0) {
        static_cast<Statistics*>(a.partials)[blockIdx.x] = running;
    }
}

extern "C" __global__ void __launch_bounds__(256) online_normalise(const __grid_constant__ Arguments a) {
    overlap();
    const Chunk<INPUT> row(a, blockIdx.x / a.chunks, 0, a.chunk_vectors);
    const Statistics* parts = static_cast<const Statistics*>(a.partials) + row.row * a.chunks;
    Statistics total = nothing();
    for (unsigned part = threadIdx.x; part < a.chunks; part += blockDim.x) {
        total = merge(total, parts[part]);
    }
    const Scale scale = scale_of(over_group<MergePairs>(total, blockDim.x));
    const long long tile = UNROLL * blockDim.x, step = tile * a.chunks;
    const long long own = blockIdx.x % a.chunks * tile, turns = (row.end - own + step - 1) / step;
    for (long long turn = turns; turn-- > 0;) {
        normalise_tile<INPUT, OUTPUT>(a, row, own + turn * step + threadIdx.x, blockDim.x, scale);
    }
}
