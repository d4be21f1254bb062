// Softmax of short rows that stay in the registers of a warp, or of a part of one: read once, reduced by shuffles alone,
// no shared memory and no barrier, several rows a block.
// INPUT and OUTPUT are Half, Bfloat or float, defined when this is compiled.
#include "rows.cuh"

template <int count>
__device__ __forceinline__ void warp_row(const Arguments& a) {
    start_dependents();
    const unsigned unit = group_number(a.group);
    const Chunk<INPUT> row(a, min(unit, a.rows - 1), 0, a.chunk_vectors);
    const unsigned lane = threadIdx.x % a.group;
    wait_for_previous();
    unsigned words[count][4];
    row.load(lane, a.group, words, PolicyLoad{a.retain ? l2_last() : l2_normal()});
    const Scale scale = scale_of(over_lanes<MergePairs>(take<INPUT>(nothing(), words), a.group));
    if (unit < a.rows) {
#pragma unroll
        for (int j = 0; j < count; ++j) {
            if (lane + j * a.group < row.end) {
                normalise_vector<INPUT, OUTPUT>(a, row, lane + j * a.group, words[j], scale);
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(256) warp_rows_1(const __grid_constant__ Arguments a) { warp_row<1>(a); }
extern "C" __global__ void __launch_bounds__(256) warp_rows_2(const __grid_constant__ Arguments a) { warp_row<2>(a); }
extern "C" __global__ void __launch_bounds__(256) warp_rows_4(const __grid_constant__ Arguments a) { warp_row<4>(a); }
extern "C" __global__ void __launch_bounds__(256) warp_rows_8(const __grid_constant__ Arguments a) { warp_row<8>(a); }
// A row of 4 KiB that begins anywhere touches one vector more.
extern "C" __global__ void __launch_bounds__(256) warp_rows_9(const __grid_constant__ Arguments a) { warp_row<9>(a); }
