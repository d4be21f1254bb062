// Stands in for kernels/ptx.cuh where kernels run on a CPU: what the PTX there does, and checks that a GPU would make.
#pragma once

#include <cmath>
#include <cstring>

#include "threads.h"

using Policy = unsigned long long;
using emulated::need_vector;

inline float exp2_flushed(float x) {
    const float power = exp2f(x);
    return power < 1.17549435e-38f ? 0.0f : power;
}

inline void widen_half(unsigned word, float* values) {
    for (int i = 0; i < 2; ++i) {
        values[i] = static_cast<float>(same_bits<_Float16>(static_cast<unsigned short>(word >> (16 * i))));
    }
}

inline unsigned narrow_half(const float* values) {
    unsigned word = 0;
    for (int i = 0; i < 2; ++i) {
        word |= static_cast<unsigned>(same_bits<unsigned short>(static_cast<_Float16>(values[i]))) << (16 * i);
    }
    return word;
}

inline unsigned narrow_bfloat(const float* values) {
    unsigned word = 0;
    for (int i = 0; i < 2; ++i) {
        const unsigned bits = __float_as_uint(values[i]);
        const unsigned rounded = values[i] != values[i] ? 0x7FFFu : (bits + 0x7FFFu + (bits >> 16 & 1)) >> 16;
        word |= rounded << (16 * i);
    }
    return word;
}

inline Policy l2_normal() { return 0; }
inline Policy l2_last() { return 1; }
inline Policy l2_first() { return 2; }

inline uint4 load_with(const uint4* place, Policy) { return __ldg(place); }

// Copied only when it is waited for, so that who does not wait reads what was in shared memory before: NaN.
inline void copy_async(uint4* target, const uint4* source, Policy) {
    need_vector(target);
    need_vector(source);
    emulated::requested().push_back({target, source});
}

// Likewise, in the order of the requests. One without a source writes zeros, one without a target ends a group.
inline void end_group() { emulated::requested().push_back({nullptr, nullptr}); }

template <int pending>
inline void wait_groups() {
    auto& requested = emulated::requested();
    int groups = 0;
    for (const auto& request : requested) {
        groups += !request.first;
    }
    while (groups > pending) {
        const auto [target, source] = requested.front();
        requested.erase(requested.begin());
        if (target) {
            *target = source ? *source : uint4{0, 0, 0, 0};
        } else {
            --groups;
        }
    }
}

inline void wait_copies() {
    end_group();
    wait_groups<0>();
}

enum Barrier : unsigned long long { CLOSED, OPEN, ASKED, ARRIVED };

inline void open_barriers(Barrier* barriers, unsigned count) {
    if (threadIdx.x < count) {
        barriers[threadIdx.x] = OPEN;
    }
    __syncthreads();
}

// Copied only when it is waited for, like the others.
inline void copy_bulk(uint4* target, const uint4* source, unsigned bytes, Barrier& barrier, Policy) {
    need_vector(target);
    need_vector(source);
    if (bytes % 16) {
        emulated::fail("a bulk copy of another number of bytes than a multiple of 16");
    }
    if (barrier != OPEN) {
        emulated::fail("a bulk copy at a barrier that is not open, or has one already");
    }
    barrier = ASKED;
    emulated::block.bulk_copies[&barrier] = {target, source, bytes};
}

inline void await_bulk(Barrier& barrier) {
    while (barrier == OPEN) {
        emulated::let_others_run();
    }
    if (barrier == ASKED) {
        const emulated::BulkCopy copy = emulated::block.bulk_copies[&barrier];
        memcpy(copy.target, copy.source, copy.bytes);
        barrier = ARRIVED;
    }
}

inline unsigned anew(unsigned number) { return number; }
inline uint4* dynamic_shared() { return emulated::dynamic_memory(); }
inline void start_dependents() {}
inline void wait_for_previous() {}

inline void send_words(unsigned long long* place, unsigned long long first, unsigned long long second) {
    need_vector(place);
    __atomic_store_n(place, first, __ATOMIC_RELAXED);
    __atomic_store_n(place + 1, second, __ATOMIC_RELAXED);
}

inline void peek_words(const unsigned long long* place, unsigned long long& first, unsigned long long& second) {
    need_vector(place);
    emulated::let_others_run();
    first = __atomic_load_n(place, __ATOMIC_RELAXED);
    second = __atomic_load_n(place + 1, __ATOMIC_RELAXED);
}
