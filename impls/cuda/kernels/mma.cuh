// The tensor cores' PTX, and copies for pipelines of tiles. Fragments lie as the PTX ISA states for mma.m16n8k16 and ldmatrix, so
// a lane knows what it holds: with group = lane / 4 and pair = 2 (lane % 4), and rows from 0,
//   A (16 x 16)  words of (group, pair), (group + 8, pair), (group, pair + 8), (group + 8, pair + 8), each with the next column
//   B (16 x 8)   words of (pair, group), (pair + 8, group), each with the next row
//   C (16 x 8)   (group, pair), (group, pair + 1), (group + 8, pair), (group + 8, pair + 1)
// Like ptx.cuh this file can be put another one in the place of.
#pragma once

#include "numeric.cuh"

// c += a b.
template <typename T>
__device__ __forceinline__ void multiply_add(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1);

template <>
__device__ __forceinline__ void multiply_add<Half>(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

template <>
__device__ __forceinline__ void multiply_add<Bfloat>(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Four matrices of 8 x 8 numbers of 16 bits from shared memory: a lane gives the place of row lane % 8 of matrix lane / 8, and gets
// of each matrix the word (group, pair).
__device__ __forceinline__ void load_matrices(unsigned (&words)[4], const uint4* row) {
    const unsigned place = shared_address(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(place)
                 : "memory");
}

// The same of the transposed matrices: the numbers (pair, group) and (pair + 1, group).
__device__ __forceinline__ void load_transposed(unsigned (&words)[4], const uint4* row) {
    const unsigned place = shared_address(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(place)
                 : "memory");
}

// 16 bytes to shared memory, zeros where the source is not `inside` (it is not read then).
__device__ __forceinline__ void copy_or_zero(uint4* target, const uint4* source, bool inside) {
    const unsigned place = shared_address(target);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(place), "l"(source), "r"(inside ? 16u : 0u)
                 : "memory");
}
