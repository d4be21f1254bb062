// Stands in for kernels/mma.cuh: matrices as the PTX ISA lays them over the lanes of a warp, computed when all lanes have come.
#pragma once

#include "numeric.cuh"

namespace emulated {

template <typename T>
inline float number(unsigned word, int which) {
    float values[2];
    Format<T>::widen(word, values);
    return values[which];
}

struct Product {
    float* c;
    const unsigned* a;
    unsigned b[2];
};

// mma.m16n8k16: element by element, by where the ISA says that it lies. Sums are taken in float32, in order.
template <typename T>
inline void multiply(Product** lanes) {
    float a[16][16], b[16][8];
    for (int k = 0; k < 16; ++k) {
        for (int row = 0; row < 16; ++row) {
            a[row][k] = number<T>(lanes[row % 8 * 4 + k % 8 / 2]->a[row / 8 + k / 8 * 2], k % 2);
        }
        for (int column = 0; column < 8; ++column) {
            b[k][column] = number<T>(lanes[column * 4 + k % 8 / 2]->b[k / 8], k % 2);
        }
    }
    for (int row = 0; row < 16; ++row) {
        for (int column = 0; column < 8; ++column) {
            float& sum = lanes[row % 8 * 4 + column / 2]->c[row / 8 * 2 + column % 2];
            for (int k = 0; k < 16; ++k) {
                sum += a[row][k] * b[k][column];
            }
        }
    }
}

struct Rows {
    unsigned* words;
    const unsigned short* row;
};

inline void load(Rows** lanes, bool transposed) {
    for (int lane = 0; lane < LANES; ++lane) {
        for (int matrix = 0; matrix < 4; ++matrix) {
            unsigned word = 0;
            for (int i = 0; i < 2; ++i) {
                const int row = transposed ? lane % 4 * 2 + i : lane / 4, column = transposed ? lane / 4 : lane % 4 * 2 + i;
                word |= static_cast<unsigned>(lanes[8 * matrix + row]->row[column]) << (16 * i);
            }
            lanes[lane]->words[matrix] = word;
        }
    }
}

}  // namespace emulated

template <typename T>
inline void multiply_add(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    emulated::Product own{c, a, {b0, b1}};
    emulated::together(own, [](emulated::Product** lanes) { emulated::multiply<T>(lanes); });
}

inline void load_matrices(unsigned (&words)[4], const uint4* row, bool transposed = false) {
    emulated::Rows own{words, reinterpret_cast<const unsigned short*>(row)};
    emulated::need_vector(row);
    emulated::together(own, [=](emulated::Rows** lanes) { emulated::load(lanes, transposed); });
}

inline void load_transposed(unsigned (&words)[4], const uint4* row) { load_matrices(words, row, true); }

// Copied as late as a GPU may: when a wait asks for it. A request without a source writes zeros, one without a target ends a group.
inline void copy_or_zero(uint4* target, const uint4* source, bool inside) {
    if (inside) {
        copy_async(target, source, l2_normal());
    } else {
        need_vector(target);
        emulated::requested().push_back({target, nullptr});
    }
}
