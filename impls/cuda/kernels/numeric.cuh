// Number formats as bits, converted by PTX so that no CUDA header is needed, and the (maximum, sum) pair of a softmax.
#pragma once

// Types of their own, not `unsigned short`, so that the two 16-bit formats select different code.
struct Half {
    unsigned short bits;
};
struct Bfloat {
    unsigned short bits;
};

// 2^x, a result below 2^-126 as zero: enough for a sum whose largest term is one.
__device__ __forceinline__ float exp2_flushed(float x) {
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
    return power;
}

// Per format: `packed` numbers to a 32-bit word, the word that is all -inf, the conversions of such a
// word, and a 2^x that keeps whatever the format can hold: float16 ends far above 2^-126, the others below it.
template <typename T>
struct Format;

template <>
struct Format<Half> {
    static constexpr int packed = 2;
    static constexpr unsigned minus_infinity = 0xFC00FC00u;

    static __device__ __forceinline__ void widen(unsigned word, float* values) {
        asm("{\n .reg .b16 low, high;\n mov.b32 {low, high}, %2;\n cvt.f32.f16 %0, low;\n cvt.f32.f16 %1, high;\n}"
            : "=f"(values[0]), "=f"(values[1])
            : "r"(word));
    }
    static __device__ __forceinline__ unsigned narrow(const float* values) {
        unsigned word;
        asm("cvt.rn.f16x2.f32 %0, %2, %1;" : "=r"(word) : "f"(values[0]), "f"(values[1]));
        return word;
    }
    static __device__ __forceinline__ float exp2(float x) { return exp2_flushed(x); }
};

template <>
struct Format<Bfloat> {
    static constexpr int packed = 2;
    static constexpr unsigned minus_infinity = 0xFF80FF80u;

    static __device__ __forceinline__ void widen(unsigned word, float* values) {
        values[0] = __uint_as_float(word << 16);
        values[1] = __uint_as_float(word & 0xFFFF0000u);
    }
    static __device__ __forceinline__ unsigned narrow(const float* values) {
        unsigned word;
        asm("cvt.rn.bf16x2.f32 %0, %2, %1;" : "=r"(word) : "f"(values[0]), "f"(values[1]));
        return word;
    }
    static __device__ __forceinline__ float exp2(float x) { return exp2f(x); }
};

template <>
struct Format<float> {
    static constexpr int packed = 1;
    static constexpr unsigned minus_infinity = 0xFF800000u;

    static __device__ __forceinline__ void widen(unsigned word, float* values) { values[0] = __uint_as_float(word); }
    static __device__ __forceinline__ unsigned narrow(const float* values) { return __float_as_uint(values[0]); }
    static __device__ __forceinline__ float exp2(float x) { return exp2f(x); }
};

constexpr float LOG2_E = 1.4426950408889634f;

__device__ __forceinline__ float minus_infinity() {
    return __uint_as_float(0xFF800000u);
}

// What is subtracted from elements. Where all are -inf (or NaN, which fmaxf drops) the maximum is -inf and x - maximum
// would make a NaN of every -inf; with zero in its place their powers are 0, and a NaN element still gives NaN.
__device__ __forceinline__ float anchor(float maximum) {
    return maximum == minus_infinity() ? 0.0f : maximum;
}

// The difference comes first: x * log2(e) - maximum * log2(e) loses 3e-4 at an offset of 1e4 and overflows at the ends.
__device__ __forceinline__ float exponent(float x, float origin) {
    return (x - origin) * LOG2_E;
}

// Of some elements: the largest but NaN, and the sum of exp(x - anchor(maximum)), NaN where they hold +inf or NaN.
struct Statistics {
    float maximum;
    float sum;
};

__device__ __forceinline__ Statistics nothing() {
    return {minus_infinity(), 0.0f};
}

__device__ __forceinline__ Statistics merge(Statistics a, Statistics b) {
    const float maximum = fmaxf(a.maximum, b.maximum);
    const float origin = anchor(maximum);
    const float a_scale = exp2_flushed(exponent(a.maximum, origin));
    const float b_scale = exp2_flushed(exponent(b.maximum, origin));
    return {maximum, a.sum * a_scale + b.sum * b_scale};
}

// Merge over groups of neighbouring threads; `size` is a power of two up to the block's, the same in the whole block,
// and every thread of the block must call. Every thread gets its group's result.
__device__ __forceinline__ Statistics merge_group(Statistics own, unsigned size) {
    __shared__ Statistics warps[32];
    for (unsigned step = min(size, 32u) / 2; step > 0; step /= 2) {
        own = merge(own, {__shfl_xor_sync(~0u, own.maximum, step), __shfl_xor_sync(~0u, own.sum, step)});
    }
    if (size <= 32) {
        return own;
    }
    const unsigned count = size / 32, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (lane == 0) {
        warps[warp] = own;
    }
    __syncthreads();
    own = warps[warp / count * count + lane % count];
    for (unsigned step = count / 2; step > 0; step /= 2) {
        own = merge(own, {__shfl_xor_sync(~0u, own.maximum, step), __shfl_xor_sync(~0u, own.sum, step)});
    }
    return own;
}
