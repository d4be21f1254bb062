// The threads of a CUDA kernel on a CPU. A block is a thread of the operating system, its threads are contexts of that,
// so `__shared__` is `static thread_local`. A barrier that not all threads reach, or a shuffle that not all lanes of a
// warp reach, ends the launch with an error in place of a hang.
#pragma once

#include <ucontext.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#define __device__
#define __forceinline__ inline
#define __global__
#define __grid_constant__
#define __launch_bounds__(...)
#define __shared__ static thread_local

struct alignas(16) uint4 {
    unsigned x, y, z, w;
};
struct Index {
    unsigned x;
};
inline thread_local Index threadIdx, blockIdx, blockDim, gridDim;

namespace emulated {

constexpr size_t STACK_BYTES = 32 * 1024;
constexpr int LANES = 32;
enum class State { ready, at_barrier, at_shuffle, spinning, done };

struct Fiber {
    ucontext_t context;
    std::vector<char> stack = std::vector<char>(STACK_BYTES);
    State state = State::ready;
    std::vector<std::pair<uint4*, const uint4*>> requested;
};

struct Warp {
    uint32_t values[2][LANES];
    void* places[LANES];
    unsigned arrived = 0, turn = 0;
};

struct BulkCopy {
    uint4* target;
    const uint4* source;
    unsigned bytes;
};

struct Block {
    ucontext_t scheduler;
    std::map<const void*, BulkCopy> bulk_copies;  // by their barriers
    std::vector<Fiber> fibers;
    std::vector<Warp> warps;
    std::vector<uint4> memory;
    unsigned arrived = 0, running = 0;
    const char* error = nullptr;
    void (*kernel)(const void*) = nullptr;
    const void* parameters = nullptr;
};
inline thread_local Block block;

inline Fiber& current() { return block.fibers[block.running]; }
inline auto& requested() { return current().requested; }
inline uint4* dynamic_memory() { return block.memory.data(); }

__attribute__((noinline)) inline void leave(State state) {
    Fiber& own = current();
    own.state = state;
    swapcontext(&own.context, &block.scheduler);
}

inline void fail(const char* what) {
    block.error = what;
    leave(State::done);
}

inline void need_vector(const void* place) {
    if (reinterpret_cast<uintptr_t>(place) % 16) {
        fail("an access of 16 bytes at another address than a multiple of 16");
    }
}

inline void let_others_run() { leave(State::spinning); }

// Wait for all lanes of the warp; the last one to come does `work` before any goes on.
template <typename Work>
inline void meet(Warp& warp, const Work& work) {
    if (++warp.arrived == LANES) {
        warp.arrived = 0;
        ++warp.turn;
        work();
        const unsigned first = threadIdx.x - threadIdx.x % LANES;
        for (unsigned other = first; other < first + LANES; ++other) {
            block.fibers[other].state = State::ready;
        }
    } else {
        leave(State::at_shuffle);
    }
}

__attribute__((noinline)) inline uint32_t shuffle(uint32_t value, unsigned mask) {
    Warp& warp = block.warps[threadIdx.x / LANES];
    const unsigned lane = threadIdx.x % LANES, turn = warp.turn % 2;
    warp.values[turn][lane] = value;
    meet(warp, [] {});
    return warp.values[turn][lane ^ mask];
}

// What a warp does as one: `work` is given what every lane brought.
template <typename T, typename Work>
__attribute__((noinline)) inline void together(T& own, const Work& work) {
    Warp& warp = block.warps[threadIdx.x / LANES];
    warp.places[threadIdx.x % LANES] = &own;
    meet(warp, [&] { work(reinterpret_cast<T**>(warp.places)); });
}

// Runs block `number` of a launch; returns what went wrong, or null.
const char* run_block(void (*kernel)(const void*), const void* parameters, unsigned number, unsigned blocks,
                      unsigned threads, size_t shared_bytes);

}  // namespace emulated

__attribute__((noinline)) inline void __syncthreads() {
    using emulated::block;
    if (++block.arrived == block.fibers.size()) {
        block.arrived = 0;
        for (auto& fiber : block.fibers) {
            fiber.state = emulated::State::ready;
        }
    } else {
        emulated::leave(emulated::State::at_barrier);
    }
}

inline void __syncwarp() { emulated::shuffle(0, 0); }

template <typename To, typename From>
inline To same_bits(From from) {
    To to;
    memcpy(&to, &from, sizeof(to));
    return to;
}
inline float __uint_as_float(unsigned bits) { return same_bits<float>(bits); }
inline unsigned __float_as_uint(float value) { return same_bits<unsigned>(value); }
inline float __shfl_xor_sync(unsigned, float value, unsigned mask) {
    return __uint_as_float(emulated::shuffle(__float_as_uint(value), mask));
}
inline uint4 __ldg(const uint4* place) {
    emulated::need_vector(place);
    return *place;
}
inline void __stcs(uint4* place, uint4 value) {
    emulated::need_vector(place);
    *place = value;
}

template <typename T>
inline T min(T a, T b) {
    return b < a ? b : a;
}
template <typename T>
inline T max(T a, T b) {
    return a < b ? b : a;
}
