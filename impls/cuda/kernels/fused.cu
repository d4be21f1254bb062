// Softmax in which one pass leaves both the maximum and the sum of every chunk: three ways to go on from those.
//
//   cuda_fused       block_statistics   global_reduce       normalise
//   cuda_fused_wide  block_statistics   merge_statistics... normalise
//   cuda_fused_two   block_statistics   merge_and_normalise
//
// INPUT and OUTPUT are Half, Bfloat or float, defined when this is compiled.
#include "rows.cuh"

// (maximum, sum) of every chunk; `group` threads to a chunk, as many chunks to a block as fit it. The sum of a chunk is
// to the chunk's own maximum, so nothing waits for that of the row.
extern "C" __global__ void __launch_bounds__(256) block_statistics(const __grid_constant__ Arguments a) {
    overlap();
    const unsigned unit = group_number(a.group);
    const unsigned lane = threadIdx.x % a.group;
    Statistics total = nothing();
    if (unit < a.units) {
        const Chunk<INPUT> chunk(a, unit);
        for (long long vector = chunk.first + lane; vector < chunk.end; vector += UNROLL * a.group) {
            unsigned words[UNROLL][4];
            chunk.load(vector, a.group, words);
            float values[UNROLL * Chunk<INPUT>::width];
            Chunk<INPUT>::widen_all(words, values);
            total = extended(total, values);
        }
    }
    total = over_group<MergePairs>(total, a.group);
    if (lane == 0 && unit < a.units) {
        static_cast<Statistics*>(a.partials)[unit] = total;
    }
}

// Merge the chunks of every row; `lanes` threads to a row, a block of them at most.
extern "C" __global__ void __launch_bounds__(256) global_reduce(const __grid_constant__ Arguments a) {
    overlap();
    const unsigned row = group_number(a.lanes);
    const unsigned lane = threadIdx.x % a.lanes;
    Statistics* partials = static_cast<Statistics*>(a.partials);
    Statistics total = nothing();
    if (row < a.rows) {
        for (unsigned chunk = lane; chunk < a.chunks; chunk += a.lanes) {
            total = merge(total, partials[row * a.chunks + chunk]);
        }
    }
    total = over_group<MergePairs>(total, a.lanes);
    if (lane == 0 && row < a.rows) {
        partials[a.finals + row] = total;
    }
}

// The same by as many blocks as there are thousands of chunks, level by level.
extern "C" __global__ void __launch_bounds__(256) merge_statistics(const __grid_constant__ Arguments a,
                                                                   const __grid_constant__ Level level) {
    overlap();
    reduce_level<MergePairs>(static_cast<Statistics*>(a.partials), level);
}

// The first kernel's chunks from the last to the first: what it read last is still in L2.
extern "C" __global__ void __launch_bounds__(256) normalise(const __grid_constant__ Arguments a) {
    overlap();
    const unsigned place = group_number(a.group);
    if (place >= a.units) {
        return;
    }
    const Chunk<INPUT> chunk(a, a.units - 1 - place);
    const Scale scale = scale_of(static_cast<const Statistics*>(a.partials)[a.finals + chunk.row]);
    const unsigned lane = threadIdx.x % a.group;
    normalise_chunk(a, chunk, lane, scale);
}

// Every block merges all chunks of its row for itself, out of the second-level cache, and normalises.
extern "C" __global__ void __launch_bounds__(256) merge_and_normalise(const __grid_constant__ Arguments a) {
    overlap();
    const unsigned place = group_number(a.group);
    if (place >= a.units) {
        return;
    }
    const Chunk<INPUT> chunk(a, a.units - 1 - place);
    const unsigned lane = threadIdx.x % a.group;
    const Statistics* parts = static_cast<const Statistics*>(a.partials) + chunk.row * a.chunks;
    Statistics total = parts[0];
    if (a.chunks > 1) {  // then a chunk takes the whole block
        total = nothing();
        for (unsigned part = lane; part < a.chunks; part += a.group) {
            total = merge(total, parts[part]);
        }
        total = over_group<MergePairs>(total, a.group);
    }
    const Scale scale = scale_of(total);
    normalise_chunk(a, chunk, lane, scale);
}
