"""What htile/lists.py has of the hardware, on a CPU: pairs of 16-bit floats are tuples, and other words integers."""

from operator import add, or_

import numpy as np

from support.emulated_memory import BASE

WARP = 32


def ptx(text, a, b=None):
    name, *_, last = text.rstrip(";").split()
    if name.startswith(("max", "min")):
        pairs = [x if isinstance(x, tuple) else (np.float32(np.inf),) * 2 for x in (a, b)]
        return tuple(map(np.maximum if name.startswith("max") else np.minimum, *pairs))
    if name.startswith("set.geu."):
        return sum((not x < y) * 0xFFFF << 16 * i for i, (x, y) in enumerate(zip(a, b, strict=True)))
    if name == "mad.lo.s32":
        return (a * int(text.split()[3].strip(",")) + b) % 2**32
    if name == "bfind.u32":
        return a.bit_length() - 1
    return a[::-1] if last == "0x1032" else tuple(np.uint32(bits(x) & 0xFFFF0000).view(np.float32) for (x,) in (a, b))


def bits(value, dtype=None):
    if dtype and dtype.name == "float16":
        return int(np.float16(value).view(np.int16))
    return int(np.float32(value).view(np.int32)) >> (32 - dtype.width if dtype else 0)


def number(word, dtype):
    if dtype.name == "float16":
        return np.float32(np.int16(word).view(np.float16))
    return np.int32(word << (32 - dtype.width)).view(np.float32)


def half(pair, dtype):
    return bits(pair[0], dtype)


def twice(word, dtype):
    return (number(word, dtype),) * 2


def fetched(place, column, left, least, dtype):
    return bits(place.memory[place.at(column)], dtype) if left > least else -2


def stand_in(lists, arch, here, exchange):
    """Of a thread `here`; exchange: over its warp, as in emulated_threads."""

    def lane():
        return here.thread % WARP

    def leave(address, word):
        here.cluster.shared[here.rank][0][(address - BASE) // 4] = word

    def atomic_or(place, bits):
        with here.cluster.lock:
            place.memory[place.at(0)] |= bits

    vars(lists).update(ptx=ptx, bits=bits, number=number, half=half, twice=twice, fetched=fetched, leave=leave)
    vars(arch).update(
        lane_idx=lane,
        shuffle_sync=exchange,
        shuffle_sync_bfly=lambda x, offset: exchange(x, lane() ^ offset),
        sync_warp=lambda: exchange(0, lane()),
        vote_any_sync=lambda x: bool(exchange(x, max, WARP)),
        vote_ballot_sync=lambda x: exchange(int(x) << lane(), or_, WARP),
        warp_redux_sync=lambda x, kind: exchange(x, {"max": max, "add": add}[kind], WARP),
        atomic_or=atomic_or,
        popc=lambda x: x.bit_count(),
    )
