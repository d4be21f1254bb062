// How the blocks of a cooperative launch that share a row tell one another (maximum, sum).
//
// A pair is two words of 64 bits, each a float32 with the row's tag: a word with the right tag has arrived, so there is
// no counter and no fence (the idea of NCCL's LL protocol). Tags go on from launch to launch, for which the words must be
// zero before the first. Rows take two sets of places in turn: who sends for row i + 2 has the pairs of row i + 1 from
// all, and they were sent by blocks that were done with row i.
//
//   of a team   | tag, 128 bytes | even rows: block 0, block 1, ..., all of them | odd rows: ... |
#pragma once

#include "groups.cuh"

constexpr unsigned TAG_WORDS = 16;
// Teams up to this size send to all; in larger ones the first block merges and sends on, since the places that all
// blocks wait at would otherwise take the cache's bandwidth from those that still load.
constexpr unsigned DIRECT = 16;
// For blocks that are done with loading at about the same time.
constexpr unsigned ALL_DIRECT = ~0u;

// Of block number `rank` of a team of `size`, at most as many as a block has threads.
struct Exchange {
    unsigned long long* words;  // of the team
    unsigned rank, size;
    unsigned tag;  // of the row

    __device__ __forceinline__ Exchange(unsigned long long* all, unsigned block, unsigned size, unsigned tag)
        : words(all + block / size * static_cast<unsigned long long>(TAG_WORDS + 4 * (size + 1))),
          rank(block % size),
          size(size),
          tag(tag) {}

    // The tag that the launch before left, to be read behind the block's next barrier; all its threads call.
    __device__ __forceinline__ const unsigned& last_tag() const {
        __shared__ unsigned last;
        if (threadIdx.x == 0) {
            last = static_cast<unsigned>(words[0]);
        }
        return last;
    }

    __device__ __forceinline__ unsigned long long* place(unsigned of) const {
        return words + TAG_WORDS + 2 * ((tag & 1) * (size + 1) + of);
    }

    __device__ __forceinline__ void send(unsigned of, Statistics pair) const {
        const unsigned long long high = static_cast<unsigned long long>(tag) << 32;
        send_words(place(of), high | __float_as_uint(pair.maximum), high | __float_as_uint(pair.sum));
    }

    __device__ __forceinline__ Statistics await(unsigned of) const {
        unsigned long long first, second;
        do {
            peek_words(place(of), first, second);
        } while (static_cast<unsigned>(first >> 32) != tag || static_cast<unsigned>(second >> 32) != tag);
        return {__uint_as_float(static_cast<unsigned>(first)), __uint_as_float(static_cast<unsigned>(second))};
    }

    // The pair of a row, from that of every block; all threads call, and hold the same. Ends behind a barrier.
    template <unsigned direct = DIRECT>
    __device__ __forceinline__ Statistics over_team(Statistics own) const {
        if (size == 1) {
            __syncthreads();
            return own;
        }
        if (threadIdx.x == 0) {
            send(rank, own);
        }
        if (size <= direct || rank == 0) {
            Statistics total = threadIdx.x < size ? await(threadIdx.x) : nothing();
            total = over_group<MergePairs, 1>(total, blockDim.x);
            if (size > direct && threadIdx.x == 0) {
                send(size, total);
            }
            return total;
        }
        __shared__ Statistics received;
        if (threadIdx.x == 0) {
            received = await(size);
        }
        __syncthreads();
        return received;
    }

    // Leave the tag to the next launch: rank 0 has the pairs of all, who had read the old tag before they sent.
    __device__ __forceinline__ void finish() const {
        if (rank == 0 && threadIdx.x == 0) {
            words[0] = tag;
        }
    }
};
