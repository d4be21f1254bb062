// Kernels that pass a softmax's output on bit by bit, and get it wrong if a graph around them was rebuilt wrongly.
//
// All take the same parameters, and are launched with BLOCKS blocks of THREADS threads:
//   y, out   vectors of 16 bytes
//   words    a workspace of 1024 words
//   vectors  how many
// BLOCKS, THREADS, CLUSTER, KEY, START and TWIST are defined by companions.py.

#define PARAMETERS const uint4 *y, uint4 *out, unsigned int *words, long long vectors
#define EACH(i) \
    for (long long i = (long long)blockIdx.x * THREADS + threadIdx.x; i < vectors; i += (long long)BLOCKS * THREADS)

__device__ uint4 mixed(uint4 v, unsigned int key) {
    return make_uint4(v.x ^ key, v.y ^ key, v.z ^ key, v.w ^ key);
}

// Right if words[0] is KEY.
extern "C" __global__ void unlock(PARAMETERS) {
    const unsigned int key = words[0] ^ KEY;
    EACH(i) out[i] = mixed(y[i], key);
}

// Right if a row of three fills, 16 words apart, was made as well.
extern "C" __global__ void unlock_filled(PARAMETERS) {
    unsigned int key = words[0] ^ KEY;
    for (int place = 1; place <= 3; ++place) key |= words[16 * place] ^ 0x5b5b5b5bu;
    EACH(i) out[i] = mixed(y[i], key);
}

// Two of them with opposite TWIST, from two modules, cancel out.
extern "C" __global__ void twist(PARAMETERS) {
    EACH(i) {
        const uint4 v = y[i];
        out[i] = make_uint4(v.x + TWIST, v.y + TWIST, v.z + TWIST, v.w + TWIST);
    }
}

__device__ void cluster_barrier() {
    asm volatile("barrier.cluster.arrive.release;\n\tbarrier.cluster.wait.acquire;" ::: "memory");
}

// Each block writes what another block of its cluster has read, out of that one's shared memory.
extern "C" __global__ void swap_in_cluster(PARAMETERS) {
    __shared__ uint4 tile[THREADS];
    unsigned int rank, far;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    const unsigned int near = (unsigned int)__cvta_generic_to_shared(&tile[threadIdx.x]), peer = CLUSTER - 1 - rank;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(far) : "r"(near), "r"(peer));
    const long long step = (long long)BLOCKS * THREADS;
    for (long long first = (long long)(blockIdx.x - rank) * THREADS; first < vectors; first += step) {
        const long long read = first + rank * THREADS + threadIdx.x, written = first + peer * THREADS + threadIdx.x;
        if (read < vectors) tile[threadIdx.x] = y[read];
        cluster_barrier();
        uint4 v;
        asm volatile("ld.shared::cluster.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(far) : "memory");
        if (written < vectors) out[written] = v;
        cluster_barrier();
    }
}

// The barrier of cooperative groups, in the workspace that the driver gives a cooperative launch.
__device__ void grid_barrier() {
    __syncthreads();
    if (threadIdx.x == 0) {
        unsigned int high, low;
        asm("mov.u32 %0, %%envreg1;" : "=r"(high));
        asm("mov.u32 %0, %%envreg2;" : "=r"(low));
        unsigned int *arrived = (unsigned int *)(((unsigned long long)high << 32) | low) + 1;
        __threadfence();
        const unsigned int before = atomicAdd(arrived, blockIdx.x == 0 ? 0x80000000u - (BLOCKS - 1) : 1u);
        while (((before ^ *(volatile unsigned int *)arrived) & 0x80000000u) == 0) {}
        __threadfence();
    }
    __syncthreads();
}

// Each block turns back what another block has turned, after a barrier of all.
extern "C" __global__ void turn_twice(PARAMETERS) {
    EACH(i) out[i] = mixed(y[i], KEY);
    grid_barrier();
    const long long step = (long long)BLOCKS * THREADS;
    for (long long i = (long long)(BLOCKS - 1 - blockIdx.x) * THREADS + threadIdx.x; i < vectors; i += step)
        out[i] = mixed(__ldcg(&out[i]), KEY);
}

// Lets the next kernel begin at once, and itself waits for the one before it. Two of them cancel out.
extern "C" __global__ void turn_early(PARAMETERS) {
    asm volatile("griddepcontrol.launch_dependents;");
    asm volatile("griddepcontrol.wait;" ::: "memory");
    EACH(i) out[i] = mixed(y[i], words[0]);
}

// words[0] counts arrivals from START on, and is never reset. The block that comes last in a launch writes the first tile, and
// gets it wrong unless all others have left their mark.
extern "C" __global__ void count_up(PARAMETERS) {
    __shared__ bool is_last;
    EACH(i) if (i >= THREADS) out[i] = y[i];
    if (threadIdx.x == 0) {
        words[1 + blockIdx.x] = KEY;
        __threadfence();
        is_last = (atomicAdd(words, 1u) + 1 - START) % BLOCKS == 0;
    }
    __syncthreads();
    if (!is_last) return;
    __threadfence();
    unsigned int missing = 0;
    for (int block = 0; block < BLOCKS; ++block) missing |= ((volatile unsigned int *)words)[1 + block] ^ KEY;
    __syncthreads();
    for (int block = threadIdx.x; block < BLOCKS; block += THREADS) words[1 + block] = 0;
    if (threadIdx.x < vectors) out[threadIdx.x] = mixed(y[threadIdx.x], missing);
}
