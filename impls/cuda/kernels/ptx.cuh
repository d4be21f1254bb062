// All inline PTX of the family but that of mma.cuh: conversions that need no CUDA header, cache policies, asynchronous
// copies, words that blocks exchange. Nothing else here depends on the instruction set, so a test can put another file in this one's place.
#pragma once

using Policy = unsigned long long;

// 2^x, a result below 2^-126 as zero: enough for a sum whose largest term is one.
__device__ __forceinline__ float exp2_flushed(float x) {
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
    return power;
}

__device__ __forceinline__ void widen_half(unsigned word, float* values) {
    asm("{\n .reg .b16 low, high;\n mov.b32 {low, high}, %2;\n cvt.f32.f16 %0, low;\n cvt.f32.f16 %1, high;\n}"
        : "=f"(values[0]), "=f"(values[1])
        : "r"(word));
}

__device__ __forceinline__ unsigned narrow_half(const float* values) {
    unsigned word;
    asm("cvt.rn.f16x2.f32 %0, %2, %1;" : "=r"(word) : "f"(values[0]), "f"(values[1]));
    return word;
}

__device__ __forceinline__ unsigned narrow_bfloat(const float* values) {
    unsigned word;
    asm("cvt.rn.bf16x2.f32 %0, %2, %1;" : "=r"(word) : "f"(values[0]), "f"(values[1]));
    return word;
}

// How long the second-level cache is to keep what is loaded.
__device__ __forceinline__ Policy l2_normal() {
    Policy policy;
    asm("createpolicy.fractional.L2::evict_normal.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}

__device__ __forceinline__ Policy l2_last() {
    Policy policy;
    asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}

__device__ __forceinline__ Policy l2_first() {
    Policy policy;
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}

// Volatile, so that a second read of an address stays behind the exchange that lies between the two.
__device__ __forceinline__ uint4 load_with(const uint4* place, Policy policy) {
    uint4 raw;
    asm volatile("ld.global.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], %5;"
                 : "=r"(raw.x), "=r"(raw.y), "=r"(raw.z), "=r"(raw.w)
                 : "l"(place), "l"(policy));
    return raw;
}

// What the instructions below call a place in shared memory by.
__device__ __forceinline__ unsigned shared_address(const void* place) {
    return static_cast<unsigned>(__cvta_generic_to_shared(place));
}

// 16 bytes to shared memory, there for the thread that asked once it has called `wait_copies`.
__device__ __forceinline__ void copy_async(uint4* target, const uint4* source, Policy policy) {
    asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2;" ::"r"(shared_address(target)), "l"(source),
                 "l"(policy)
                 : "memory");
}

__device__ __forceinline__ void wait_copies() {
    asm volatile("cp.async.wait_all;" ::: "memory");
}

// What a thread has asked for since the last time is a group; all groups but the newest `pending` are there after the wait.
__device__ __forceinline__ void end_group() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}

template <int pending>
__device__ __forceinline__ void wait_groups() {
    asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}

// An mbarrier, for one bulk copy after `open_barriers`.
using Barrier = unsigned long long;

// All threads of the block call; ends behind a barrier of the block.
__device__ __forceinline__ void open_barriers(Barrier* barriers, unsigned count) {
    if (threadIdx.x < count) {
        asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(shared_address(barriers + threadIdx.x)) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
}

// `bytes`, a multiple of 16 and maybe 0, to shared memory in one piece; one thread asks, `await_bulk` says when it is there.
__device__ __forceinline__ void copy_bulk(uint4* target, const uint4* source, unsigned bytes, Barrier& barrier,
                                          Policy policy) {
    const unsigned arrived = shared_address(&barrier);
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(arrived), "r"(bytes) : "memory");
    if (bytes > 0) {
        asm volatile(
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;"
            ::"r"(shared_address(target)), "l"(source), "r"(bytes), "r"(arrived), "l"(policy)
            : "memory");
    }
}

__device__ __forceinline__ void await_bulk(Barrier& barrier) {
    asm volatile(
        "{\n .reg .pred done;\nwaiting:\n mbarrier.try_wait.parity.shared.b64 done, [%0], 0;\n @!done bra waiting;\n}"
        ::"r"(shared_address(&barrier))
        : "memory");
}

// The same number, which the compiler takes for another: what follows from it is computed anew, not kept in registers.
__device__ __forceinline__ unsigned anew(unsigned number) {
    asm volatile("" : "+r"(number));
    return number;
}

__device__ __forceinline__ uint4* dynamic_shared() {
    extern __shared__ uint4 bytes[];
    return bytes;
}

// Programmatic dependent launch: the next kernel may start now; what the one before wrote is there.
__device__ __forceinline__ void start_dependents() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
#endif
}

__device__ __forceinline__ void wait_for_previous() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Two words that other blocks see, each of them as a whole; in no order with other accesses.
__device__ __forceinline__ void send_words(unsigned long long* place, unsigned long long first,
                                           unsigned long long second) {
    asm volatile("st.relaxed.gpu.global.v2.b64 [%0], {%1, %2};" ::"l"(place), "l"(first), "l"(second) : "memory");
}

__device__ __forceinline__ void peek_words(const unsigned long long* place, unsigned long long& first,
                                           unsigned long long& second) {
    asm volatile("ld.relaxed.gpu.global.v2.b64 {%0, %1}, [%2];" : "=l"(first), "=l"(second) : "l"(place) : "memory");
}
