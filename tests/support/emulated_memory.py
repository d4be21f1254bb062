"""Memory of the CuTe DSL on a CPU: dtypes, pointers, layouts, tensors and vectors, with bounds and alignment checked."""

import math
import threading

import numpy as np


class Dtype:
    inf = math.inf

    def __init__(self, name, width):
        self.name, self.width = name, width

    def __call__(self, value):
        """Rounded to a dtype of floats; integers are Python's."""
        if isinstance(value, tuple):  # of Words
            return value
        if self.name == "bool":
            return bool(value)
        if self.name == "uint8":  # NaN where nothing was written
            return np.float32(value)
        if self.name == "bfloat16":
            if value != value:  # whose bits may be all ones
                return np.float32(value)
            bits = np.float32(value).view(np.uint32)
            return np.uint32((int(bits) + 0x7FFF + (int(bits) >> 16 & 1)) & 0xFFFF0000).view(np.float32)
        return int(value) if self.name.startswith("int") else np.float32(np.dtype(self.name).type(value))


DTYPES = {
    name: Dtype(name, width) for name, width in (("float32", 32), ("float16", 16), ("bfloat16", 16), ("uint8", 8), ("int64", 64))
}
BOOLEAN = Dtype("bool", 8)
INT32, INT64 = Dtype("int32", 32), DTYPES["int64"]


BASE = 2**20
TIMEOUT_S = 60


def flat(x):
    return [leaf for part in x for leaf in flat(part)] if isinstance(x, tuple) else [x]


class Pointer:
    def __init__(self, memory, offset, dtype):
        self.memory, self.offset, self.dtype = memory, int(offset), dtype

    def __add__(self, elements):
        return Pointer(self.memory, self.offset + elements, self.dtype)

    def __sub__(self, elements):
        return self + -elements

    def toint(self):
        """Of numpy, so that what follows from it is not True, which only a constant is."""
        return np.int64(BASE + self.offset * self.dtype.width // 8)

    def align(self, bytes_):
        assert self.offset * self.dtype.width // 8 % bytes_ == 0, f"element {self.offset} is not on {bytes_} bytes"
        return self

    def at(self, index):
        assert 0 <= self.offset + index < len(self.memory), "beyond its memory"
        return self.offset + index


class Layout:
    def __init__(self, shape, stride=None, order=None):
        self.shape = shape if isinstance(shape, tuple) else (shape,)
        if stride is None:
            strides, step = {}, 1
            for mode in sorted(range(len(self.shape)), key=order and order.__getitem__):
                leaves = flat(self.shape[mode])
                steps = tuple(step * math.prod(leaves[:i]) for i in range(len(leaves)))
                strides[mode] = steps if isinstance(self.shape[mode], tuple) else step
                step *= math.prod(leaves)
            stride = tuple(strides[mode] for mode in range(len(self.shape)))
        self.stride = stride if isinstance(stride, tuple) else (stride,)
        self.sizes, self.steps = flat(self.shape), flat(self.stride)

    def index(self, place):
        return sum(i * s for i, s in zip(flat(place), self.steps, strict=True))


class Vector(np.ndarray):
    """float32 values in the place of a TensorSSA."""

    def reduce(self, operation, start, _):
        for value in self:
            start = operation(start, value)
        return np.float32(start)

    def to(self, dtype):
        return vector([dtype(value) for value in self])


def vector(values):
    return np.asarray(values, dtype=np.float32).view(Vector)


class Tensor:
    memspace = None

    def __init__(self, iterator, layout):
        self.iterator, self.layout, self.element_type = iterator, layout, iterator.dtype
        self.shape, self.stride = layout.shape, layout.stride

    def __getitem__(self, place):
        if isinstance(place, tuple) and None in place:
            kept = [mode for mode, index in enumerate(place) if index is None]
            start = sum(
                Layout(shape, stride).index(index)
                for index, shape, stride in zip(place, self.shape, self.stride, strict=True)
                if index is not None
            )
            shape, stride = (tuple(x[mode] for mode in kept) for x in (self.shape, self.stride))
            return Tensor(self.iterator + start, Layout(shape, stride))
        return self.iterator.memory[self._at(place)]

    def __setitem__(self, place, value):
        self.iterator.memory[self._at(place)] = self.element_type(value)

    def _at(self, place):
        sizes, place = self.layout.sizes, flat(place)
        if len(place) < len(sizes):  # a number of all modes
            place = [place[0] // math.prod(sizes[:i]) % n for i, n in enumerate(sizes)]
        assert all(0 <= i < n for i, n in zip(place, sizes, strict=True)), f"{place} of {self.shape}"
        return self.iterator.at(sum(i * s for i, s in zip(place, self.layout.steps, strict=True)))

    def load(self):
        return vector([self[i] for i in range(size(self))])

    def store(self, values):
        for i in range(size(self)):
            self[i] = values[i]

    def fill(self, value):
        self.store([value] * size(self))


class Word(tuple):
    """Of one value, or of two, which shifts and masks of `widened` take out; `hide` leaves it as it is."""

    def __lshift__(self, _):
        return Word(self[:1])

    def __and__(self, _):
        return Word(self[1:])

    def __xor__(self, nothing):
        assert nothing == 0
        return self


class Words:
    """A tensor in words of 32 bits: tuples of one value, or of two."""

    def __init__(self, of, _):
        self.of, self.each = of, 32 // of.element_type.width
        self.shape = (size(of) // self.each,)

    def __getitem__(self, i):
        return Word(self.of[self.each * i + k] for k in range(self.each))

    def __setitem__(self, i, word):
        for k, value in enumerate(word):
            self.of[self.each * i + k] = value


def size(x, mode=None):
    shape = x if isinstance(x, tuple) else x.shape
    return math.prod(flat(shape if mode is None else shape[mode[0]]))


class Partition:
    """A tiled copy of `htile.copy`: of a tile (rows, columns), a thread's vectors (vector, 1, turns)."""

    def __init__(self, config, _):
        self.config = config

    def get_slice(self, thread):
        self.thread = thread
        return self

    def partition_S(self, tile):
        config = self.config
        row, lane = divmod(self.thread, config.threads_per_row)
        by_row, by_column = tile.stride
        step = config.vector * by_column
        first = row * by_row + lane * step
        layout = Layout((config.vector, 1, config.vectors_per_thread), (by_column, 0, config.threads_per_row * step))
        return tile.part(first, layout) if isinstance(tile, Identity) else Tensor(tile.iterator + first, layout)

    partition_D = partition_S


class Identity:
    """A tensor of its own coordinates, (row, column)."""

    def __init__(self, shape):
        self.shape, self.stride, self.first, self.layout = shape, (shape[1], 1), 0, Layout(shape, (shape[1], 1))

    def part(self, first, layout):
        made = Identity((1, self.stride[0]))
        made.first, made.layout, made.shape = first, layout, layout.shape
        return made

    def __getitem__(self, place):
        index = self.first + (self.layout.index(place) if isinstance(place, tuple) else 0)
        return divmod(index, self.stride[0])


def tile(x, shape, place):
    if isinstance(x, Words):
        count = shape[0] * x.each
        return Words(Tensor(x.of.iterator + place[0] * count, Layout(count)), None)
    steps = tuple(i * n for i, n in zip(place, shape, strict=True))
    return Tensor(x.iterator + x.layout.index(steps), Layout(shape, x.stride))


def vector_copy(atom, source, target, **_):
    assert atom.bits == size(source) * source.element_type.width, "another width than the atom's"
    for x in (source, target):
        x.iterator.align(atom.bits // 8)
    copy(source, target)


def copy(source, target):
    assert size(source) == size(target)
    target.store([source[i] for i in range(size(source))])


def new(shape, dtype):
    """Registers, of no particular value."""
    layout = shape if isinstance(shape, Layout) else Layout(shape)
    return Tensor(Pointer([float("nan")] * size(layout), 0, dtype), layout)


def tensor(values, dtype="float32", pad=0):
    """An array as a tensor of memory of its own; pad: elements between its rows."""
    array = np.asarray(values, dtype=np.float32)
    *outer, columns = array.shape
    strides = [(columns + pad) * math.prod(outer[i + 1 :]) for i in range(len(outer))]
    layout = Layout(array.shape, (*strides, 1))
    memory = [float("nan")] * (layout.index(tuple(n - 1 for n in array.shape)) + 1)
    made = Tensor(Pointer(memory, 0, DTYPES[dtype]), layout)
    for place in np.ndindex(array.shape):
        made[place] = array[place]
    return made


def values(x):
    return np.array([x[place] for place in np.ndindex(x.shape)], dtype=np.float64).reshape(x.shape)


class Mbarrier:
    """A phase ends when all threads have arrived, and the bytes that they announced."""

    def __init__(self, arrivals, errors):
        self.arrivals = self.pending = arrivals
        self.phase, self.bytes, self.errors, self.changed = 0, 0, errors, threading.Condition()

    def add(self, arrivals, bytes_):
        with self.changed:
            self.pending, self.bytes = self.pending - arrivals, self.bytes + bytes_
            assert self.pending >= 0, "more arrivals than a phase has"
            if not self.pending and not self.bytes:
                self.phase, self.pending = self.phase + 1, self.arrivals
                self.changed.notify_all()

    def wait(self, parity):
        with self.changed:
            done = self.changed.wait_for(lambda: self.phase % 2 != parity or self.errors, TIMEOUT_S)
        assert done, "nobody completes what is waited for"
        assert not self.errors, "another thread failed"

    def abort(self):
        with self.changed:
            self.changed.notify_all()
