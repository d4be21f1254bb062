// Softmax of rows that stay on the GPU from their one read on. A team of blocks, one to a multiprocessor, has a row:
// each holds a part of it in registers, the rest in shared memory. That comes in pieces, with so few under way that no
// other answer waits long behind them; the block's last warp, the courier, does nothing but ask for them.
// INPUT and OUTPUT are Half, Bfloat or float, defined when this is compiled.
#include "exchange.cuh"
#include "rows.cuh"

// A row goes to its team in turn: to every block a vector for each worker, HELD times; then piece after piece.
constexpr unsigned WORKERS = 480;
constexpr unsigned HELD = 10;         // vectors that a worker keeps in registers
constexpr unsigned PIECE = 3;         // vectors that a worker has of a piece
constexpr unsigned MOST_PIECES = 10;  // of a block
constexpr unsigned UNDER_WAY = 2;     // pieces at a time

// What a block has of its row. `arrived` has a barrier a piece, each of which is waited for once.
struct Share {
    Chunk<INPUT> row;
    Barrier* arrived;
    unsigned size, rank, pieces;

    __device__ __forceinline__ Share(const Arguments& a, Barrier* arrived)
        : row(a, blockIdx.x / a.chunks, 0, a.chunks * a.chunk_vectors),
          arrived(arrived),
          size(a.chunks),
          rank(blockIdx.x % a.chunks) {
        const unsigned end = static_cast<unsigned>(row.end), first = static_cast<unsigned>(piece(0).first);
        const unsigned distance = size * PIECE * WORKERS;
        pieces = first < end ? (end - first + distance - 1) / distance : 0;
    }
    // Of what is held: a worker's first vector, and the distance of the next.
    __device__ __forceinline__ unsigned first() const { return rank * WORKERS + threadIdx.x; }
    __device__ __forceinline__ unsigned step() const { return size * WORKERS; }
    __device__ __forceinline__ Chunk<INPUT> held() const {
        Chunk<INPUT> held = row;
        held.end = min(row.end, static_cast<long long>(HELD * step()));
        return held;
    }
    __device__ __forceinline__ Chunk<INPUT> piece(unsigned number) const {
        Chunk<INPUT> piece = row;
        piece.first = HELD * step() + (number * size + rank) * PIECE * WORKERS;
        piece.end = min(row.end, piece.first + PIECE * WORKERS);
        return piece;
    }
    // Where its first vector is kept.
    __device__ __forceinline__ uint4* place(unsigned number) const {
        return dynamic_shared() + number * PIECE * WORKERS;
    }
};

// Reads vectors where they are kept: `first` of the row is at `kept`.
struct KeptLoad {
    const uint4* kept;
    const uint4* first;
    __device__ __forceinline__ uint4 operator()(const uint4* place) const { return kept[place - first]; }
};

// Ask for the whole vectors of all pieces; one thread does.
__device__ __forceinline__ void carry(const Share& share) {
    for (unsigned number = 0; number < share.pieces; ++number) {
        if (number >= UNDER_WAY) {
            await_bulk(share.arrived[number - UNDER_WAY]);
        }
        const Chunk<INPUT> piece = share.piece(number);
        const long long from = max(piece.first, static_cast<long long>(piece.whole_first));
        const long long count = max(min(piece.end, piece.whole_end) - from, 0ll);
        uint4* target = share.place(number) + (from - piece.first);
        copy_bulk(target, piece.place(from), 16 * static_cast<unsigned>(count), share.arrived[number], l2_first());
    }
}

// A piece as this worker has it, out of shared memory.
__device__ __forceinline__ void load_piece(const Share& share, const Chunk<INPUT>& piece, unsigned number,
                                           unsigned (&words)[PIECE][4]) {
    const long long vector = piece.first + threadIdx.x;
    piece.load(vector, WORKERS, words, KeptLoad{share.place(number) + threadIdx.x, piece.place(vector)});
}

// The worker's pair of what the block has of its row.
__device__ __forceinline__ Statistics read_share(const Share& share, const unsigned (&held)[HELD][4]) {
    Statistics own = take<INPUT>(nothing(), held);
    for (unsigned number = 0; number < share.pieces; ++number) {
        unsigned words[PIECE][4];
        await_bulk(share.arrived[number]);
        load_piece(share, share.piece(number), number, words);
        own = take<INPUT>(own, words);
    }
    return own;
}

__device__ __forceinline__ void write_share(const Arguments& a, const Share& share, const unsigned (&held)[HELD][4],
                                            Scale scale) {
    normalise_vectors<INPUT, OUTPUT>(a, share.held(), share.first(), share.step(), held, scale, PlainStore{});
    for (unsigned number = 0; number < share.pieces; ++number) {
        const Chunk<INPUT> piece = share.piece(number);
        unsigned words[PIECE][4];
        load_piece(share, piece, number, words);
        normalise_vectors<INPUT, OUTPUT>(a, piece, piece.first + threadIdx.x, WORKERS, words, scale, PlainStore{});
    }
}

extern "C" __global__ void __launch_bounds__(512, 1) rows_on_chip(const __grid_constant__ Arguments a) {
    __shared__ Barrier arrived[MOST_PIECES];
    start_dependents();
    open_barriers(arrived, MOST_PIECES);
    wait_for_previous();
    const Share share(a, arrived);
    const bool works = threadIdx.x < WORKERS;
    unsigned held[HELD][4];
    if (works) {
        share.held().load(share.first(), share.step(), held, PolicyLoad{l2_first()});
    } else if (threadIdx.x == WORKERS) {
        carry(share);
    }
    const unsigned& last = Exchange(a.words, blockIdx.x, a.chunks, 0).last_tag();
    const Statistics own = over_group<MergePairs>(works ? read_share(share, held) : nothing(), blockDim.x);
    const Exchange exchange(a.words, blockIdx.x, a.chunks, last + 1);
    const Scale scale = scale_of(exchange.over_team<ALL_DIRECT>(own));
    exchange.finish();
    if (works) {
        write_share(a, share, held, scale);
    }
}
