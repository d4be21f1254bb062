// Compiled together with one source of kernels, KERNELS: how ctypes launches what is in it.
#include <atomic>
#include <sched.h>
#include <thread>

#include KERNELS

#ifdef NO_LEVEL
struct Level {};
#endif

namespace emulated {

static void enter() {
    block.kernel(block.parameters);
    leave(State::done);
}

const char* run_block(void (*kernel)(const void*), const void* parameters, unsigned number, unsigned blocks,
                      unsigned threads, size_t shared_bytes) {
    block.fibers.resize(threads);
    block.warps.assign((threads + LANES - 1) / LANES, {});
    block.memory.assign(shared_bytes / sizeof(uint4), {~0u, ~0u, ~0u, ~0u});
    block.bulk_copies.clear();
    block.arrived = 0, block.error = nullptr, block.kernel = kernel, block.parameters = parameters;
    blockIdx.x = number, blockDim.x = threads, gridDim.x = blocks;
    for (Fiber& fiber : block.fibers) {
        getcontext(&fiber.context);
        fiber.context.uc_stack.ss_sp = fiber.stack.data();
        fiber.context.uc_stack.ss_size = fiber.stack.size();
        fiber.context.uc_link = &block.scheduler;
        fiber.state = State::ready;
        fiber.requested.clear();
        makecontext(&fiber.context, enter, 0);
    }
    for (;;) {
        unsigned resumed = 0, spinning = 0, done = 0;
        for (unsigned thread = 0; thread < threads; ++thread) {
            Fiber& fiber = block.fibers[thread];
            if (fiber.state == State::done) {
                ++done;
            } else if (fiber.state == State::ready || fiber.state == State::spinning) {
                spinning += fiber.state == State::spinning;
                ++resumed;
                block.running = thread, threadIdx.x = thread;
                swapcontext(&block.scheduler, &fiber.context);
                if (block.error) {
                    return block.error;
                }
            }
        }
        if (done == threads) {
            return nullptr;
        }
        if (!resumed) {
            return "a barrier or a shuffle that not all threads reach";
        }
        if (resumed == spinning) {
            sched_yield();
        }
    }
}

struct Parameters {
    Arguments arguments;
    Level level;
    void* kernel;
    bool has_level;
};

static void call(const void* raw) {
    const auto& p = *static_cast<const Parameters*>(raw);
    if (p.has_level) {
        reinterpret_cast<void (*)(Arguments, Level)>(p.kernel)(p.arguments, p.level);
    } else {
        reinterpret_cast<void (*)(Arguments)>(p.kernel)(p.arguments);
    }
}

}  // namespace emulated

// `together` runs all blocks at once, as a cooperative launch does. Returns what went wrong, or null.
extern "C" const char* launch(void* kernel, const Arguments* arguments, const Level* level, unsigned blocks,
                              unsigned threads, size_t shared_bytes, int together) {
    const emulated::Parameters parameters{*arguments, level ? *level : Level{}, kernel, level != nullptr};
    std::atomic<const char*> error{nullptr};
    const auto run = [&](unsigned number) {
        const char* wrong = emulated::run_block(emulated::call, &parameters, number, blocks, threads, shared_bytes);
        if (wrong) {
            error = wrong;
        }
    };
    if (!together) {
        for (unsigned number = 0; number < blocks && !error; ++number) {
            run(number);
        }
        return error;
    }
    std::vector<std::thread> all;
    for (unsigned number = 0; number < blocks; ++number) {
        all.emplace_back(run, number);
    }
    for (auto& one : all) {
        one.join();
    }
    return error;
}

extern "C" size_t arguments_bytes() { return sizeof(Arguments); }
