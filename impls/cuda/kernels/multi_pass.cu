// Softmax in three passes over the row: its maximum, the sum of exp(x - maximum), normalisation. A pass that reduces
// leaves a number a chunk, and further kernels reduce those, level by level, until one a row is left.
// INPUT and OUTPUT are Half, Bfloat or float, defined when this is compiled.
#include "rows.cuh"

extern "C" __global__ void __launch_bounds__(256) chunk_maxima(const __grid_constant__ Arguments a) {
    overlap();
    const unsigned unit = group_number(a.group);
    const unsigned lane = threadIdx.x % a.group;
    float maximum = minus_infinity();
    if (unit < a.units) {
        const Chunk<INPUT> chunk(a, unit);
        for_each_tile(a, chunk, lane, [&](const auto& values) {
#pragma unroll
            for (float value : values) {
                maximum = fmaxf(maximum, value);
            }
        });
    }
    maximum = over_group<Maximum>(maximum, a.group);
    if (lane == 0 && unit < a.units) {
        static_cast<float*>(a.partials)[unit] = maximum;
    }
}

extern "C" __global__ void __launch_bounds__(256) reduce_maxima(const __grid_constant__ Arguments a,
                                                                const __grid_constant__ Level level) {
    overlap();
    reduce_level<Maximum>(static_cast<float*>(a.partials), level);
}

// What is exponentiated is x again: only sums are written, and reduce_sums does not exponentiate a second time.
extern "C" __global__ void __launch_bounds__(256) chunk_sums(const __grid_constant__ Arguments a) {
    overlap();
    const unsigned unit = group_number(a.group);
    const unsigned lane = threadIdx.x % a.group;
    float* numbers = static_cast<float*>(a.partials);
    float sum = 0.0f;
    if (unit < a.units) {
        const Chunk<INPUT> chunk(a, unit);
        const float origin = anchor(numbers[a.finals + chunk.row]);
        for_each_tile(a, chunk, lane, [&](const auto& values) {
#pragma unroll
            for (float value : values) {
                sum += exp2_flushed(exponent(value, origin));
            }
        });
    }
    sum = over_group<Sum>(sum, a.group);
    if (lane == 0 && unit < a.units) {
        numbers[a.sums + unit] = sum;
    }
}

extern "C" __global__ void __launch_bounds__(256) reduce_sums(const __grid_constant__ Arguments a,
                                                              const __grid_constant__ Level level) {
    overlap();
    reduce_level<Sum>(static_cast<float*>(a.partials), level);
}

extern "C" __global__ void __launch_bounds__(256) normalise(const __grid_constant__ Arguments a) {
    overlap();
    const unsigned unit = group_number(a.group);
    if (unit >= a.units) {
        return;
    }
    const Chunk<INPUT> chunk(a, unit);
    const float* numbers = static_cast<const float*>(a.partials);
    const Scale scale = scale_of({numbers[a.finals + chunk.row], numbers[a.totals + chunk.row]});
    const unsigned lane = threadIdx.x % a.group;
    normalise_chunk(a, chunk, lane, scale);
}
