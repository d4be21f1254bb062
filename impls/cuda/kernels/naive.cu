// Softmax as it is written down, exp(x) over the sum of exp(x), in two kernels. exp overflows float32 above 88.7.
// INPUT and OUTPUT are Half, Bfloat or float, defined when this is compiled.
#include "rows.cuh"

// The sum of exp(x) of every chunk.
extern "C" __global__ void __launch_bounds__(256) exp_sums(const __grid_constant__ Arguments a) {
    overlap();
    const unsigned unit = group_number(a.group);
    const unsigned lane = threadIdx.x % a.group;
    float sum = 0.0f;
    if (unit < a.units) {
        const Chunk<INPUT> chunk(a, unit);
        for_each_tile(a, chunk, lane, [&](const auto& values) {
#pragma unroll
            for (float value : values) {
                sum += expf(value);  // 0 for the -inf that fills what is not of the row
            }
        });
    }
    sum = over_group<Sum>(sum, a.group);
    if (lane == 0 && unit < a.units) {
        static_cast<float*>(a.partials)[unit] = sum;
    }
}

// Every block adds up its row's sums, then divides.
extern "C" __global__ void __launch_bounds__(256) divide(const __grid_constant__ Arguments a) {
    overlap();
    const unsigned unit = group_number(a.group);
    if (unit >= a.units) {
        return;
    }
    const Chunk<INPUT> chunk(a, unit);
    const unsigned lane = threadIdx.x % a.group;
    const float* sums = static_cast<const float*>(a.partials) + chunk.row * a.chunks;
    float sum = sums[0];
    if (a.chunks > 1) {  // then a chunk takes the whole block
        sum = 0.0f;
        for (unsigned part = lane; part < a.chunks; part += a.group) {
            sum += sums[part];
        }
        sum = over_group<Sum>(sum, a.group);
    }
    OUTPUT* row = static_cast<OUTPUT*>(a.output) + chunk.row * a.columns;
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
                    value = expf(value) / sum;
                }
                store<OUTPUT>(row, chunk.column(at), a.columns, chunk.is_whole(at), values);
            }
        }
    }
}
