// Number formats as bits, and the (maximum, sum) pair of a softmax.
#pragma once

#include "ptx.cuh"

// Types of their own, not `unsigned short`, so that the two 16-bit formats select different code.
struct Half {
    unsigned short bits;
};
struct Bfloat {
    unsigned short bits;
};

// Per format: `packed` numbers to a 32-bit word, the word that is all -inf, the conversions of such a
// word, and a 2^x that keeps whatever the format can hold: float16 ends far above 2^-126, the others below it.
template <typename T>
struct Format;

template <>
struct Format<Half> {
    static constexpr int packed = 2;
    static constexpr unsigned minus_infinity = 0xFC00FC00u;

    static __device__ __forceinline__ void widen(unsigned word, float* values) { widen_half(word, values); }
    static __device__ __forceinline__ unsigned narrow(const float* values) { return narrow_half(values); }
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
    static __device__ __forceinline__ unsigned narrow(const float* values) { return narrow_bfloat(values); }
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

// With some more elements: the sum so far is rescaled to the new maximum, once for all of them.
template <int count>
__device__ __forceinline__ Statistics extended(Statistics before, const float (&values)[count]) {
    float maximum = before.maximum;
#pragma unroll
    for (float value : values) {
        maximum = fmaxf(maximum, value);
    }
    const float origin = anchor(maximum);
    float sum = before.sum * exp2_flushed(exponent(before.maximum, origin));
#pragma unroll
    for (float value : values) {
        sum += exp2_flushed(exponent(value, origin));
    }
    return {maximum, sum};
}

// What an element is made a probability with: exp(x - origin) * factor. One over a sum of zero (a row of -inf) is +inf,
// and 0 * inf the NaN that such a row is.
struct Scale {
    float origin;
    float factor;
};

__device__ __forceinline__ Scale scale_of(Statistics row) {
    return {anchor(row.maximum), 1.0f / row.sum};
}
