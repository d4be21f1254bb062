// Softmax along rows in three kernels: statistics of chunks, their merge over each row, normalisation.
// INPUT and OUTPUT are Half, Bfloat or float, defined when this is compiled.
#include "rows.cuh"

// (maximum, sum) of every chunk; `group` threads to a chunk, as many chunks to a block as fit it.
extern "C" __global__ void __launch_bounds__(256) block_statistics(const __grid_constant__ Arguments a) {
    const unsigned unit = blockIdx.x * (blockDim.x / a.group) + threadIdx.x / a.group;
    const unsigned lane = threadIdx.x % a.group;
    Statistics total = nothing();
    if (unit < a.units) {
        const Chunk<INPUT> chunk(a, unit);
        for (long long vector = chunk.first + lane; vector < chunk.end; vector += UNROLL * a.group) {
            unsigned words[UNROLL][4];
            chunk.load(vector, a.group, words);
            float values[UNROLL][Chunk<INPUT>::width];
            Statistics tile = nothing();
#pragma unroll
            for (int j = 0; j < UNROLL; ++j) {
                Chunk<INPUT>::widen(words[j], values[j]);
#pragma unroll
                for (float value : values[j]) {
                    tile.maximum = fmaxf(tile.maximum, value);
                }
            }
            const float origin = anchor(tile.maximum);
#pragma unroll
            for (int j = 0; j < UNROLL; ++j) {
#pragma unroll
                for (float value : values[j]) {
                    tile.sum += exp2_flushed(exponent(value, origin));
                }
            }
            total = merge(total, tile);
        }
    }
    total = merge_group(total, a.group);
    if (lane == 0 && unit < a.units) {
        a.partials[unit] = {total.maximum, total.sum};
    }
}

// Merge the chunks of every row; `lanes` threads to a row. One over a sum of zero (a row of -inf) is +inf, and 0 * inf
// in the third kernel the NaN that such a row is.
extern "C" __global__ void __launch_bounds__(1024) global_reduce(const __grid_constant__ Arguments a) {
    const unsigned row = blockIdx.x * (blockDim.x / a.lanes) + threadIdx.x / a.lanes;
    const unsigned lane = threadIdx.x % a.lanes;
    Statistics total = nothing();
    if (row < a.rows) {
        for (unsigned chunk = lane; chunk < a.chunks; chunk += a.lanes) {
            const float2 part = a.partials[row * a.chunks + chunk];
            total = merge(total, {part.x, part.y});
        }
    }
    total = merge_group(total, a.lanes);
    if (lane == 0 && row < a.rows) {
        a.scales[row] = {anchor(total.maximum), 1.0f / total.sum};
    }
}

// The first kernel's chunks from the last to the first: what it read last is still in L2.
extern "C" __global__ void __launch_bounds__(256) normalise(const __grid_constant__ Arguments a) {
    const unsigned place = blockIdx.x * (blockDim.x / a.group) + threadIdx.x / a.group;
    if (place >= a.units) {
        return;
    }
    const Chunk<INPUT> chunk(a, a.units - 1 - place);
    const float2 scale = a.scales[chunk.row];
    OUTPUT* row = static_cast<OUTPUT*>(a.output) + chunk.row * a.columns;
    const unsigned lane = threadIdx.x % a.group;
    for (long long vector = chunk.first + lane; vector < chunk.end; vector += UNROLL * a.group) {
        unsigned words[UNROLL][4];
        chunk.load(vector, a.group, words);
#pragma unroll
        for (int j = 0; j < UNROLL; ++j) {
            const long long at = vector + j * a.group;
            if (at < chunk.end) {
                float values[Chunk<INPUT>::width];
                Chunk<INPUT>::widen(words[j], values);
#pragma unroll
                for (float& value : values) {
                    value = scale.y * Format<OUTPUT>::exp2(exponent(value, scale.x));
                }
                store<OUTPUT>(row, chunk.column(at), a.columns, chunk.is_whole(at), values);
            }
        }
    }
}
