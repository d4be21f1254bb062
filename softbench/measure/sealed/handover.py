"""What an author hands over: machine code, graphs, addresses, bytes. Data only, and none of it is believed.

A hand-over is one file: the length of a JSON text, the text, and the bytes to which it refers as stretches.
"""

import hashlib
import json
import os
import stat
import struct
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

from softbench import typed
from softbench.measure.sealed.addresses import BASES, PIECE, SPAN, overlap
from softbench.measure.sealed.driver import ATTRIBUTE_BYTES, COPY, EMPTY, FILL, KERNEL

MOST_BYTES = 1 << 30
_MOST_TEXT = 256 << 20
_MOST_NODES = 200_000
_MOST_STRETCHES = 5000
"""Of memory: each is looked for among the others. Two thousand outputs of 2 MiB fill what a replay may hold."""
_MOST_PARAMETER_BYTES = 32_764
_MOST_THREADS, _MOST_BLOCKS, _MOST_SHARED = 1024, 1 << 31, 1 << 20
_LENGTH = struct.Struct("<Q")


class BadHandOver(ValueError):
    """A hand-over that no capture can have given; the message says what is wrong with it."""


@dataclass(frozen=True)
class Stretch:
    """Bytes of the file."""

    start: int
    size: int


@dataclass(frozen=True)
class Function:
    """A kernel in machine code.

    image       by number
    parameters  offset and bytes of each
    limits      attributes that a process can set, by the driver's number
    """

    name: Stretch
    image: int
    parameters: tuple[tuple[int, int], ...]
    limits: tuple[tuple[int, int], ...]

    @property
    def parameter_bytes(self) -> int:
        return sum(size for _, size in self.parameters)


@dataclass(frozen=True)
class Node:
    """A node of a graph.

    kind        KERNEL, COPY, FILL or EMPTY
    raw         the parameters of a kernel one after the other, or the driver's structure of a copy or a fill
    function, grid, block, shared  of a kernel: by number; blocks; threads per block; bytes of dynamic shared memory
    attributes  of a kernel: by number
    """

    kind: int
    raw: Stretch
    function: int = 0
    grid: tuple[int, int, int] = (1, 1, 1)
    block: tuple[int, int, int] = (1, 1, 1)
    shared: int = 0
    attributes: int = 0


@dataclass(frozen=True)
class Output:
    """A tensor that a launch returned: its storage's address and bytes, and its place there, in elements."""

    address: int
    size: int
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class Unit:
    """Launches that were captured together.

    edges    from a node to a node, and the driver's eight bytes about it
    inputs   addresses of storages, for each set of inputs
    outputs  for each launch
    pieces   by number: the memory that belongs to these launches
    slack    what the allocator left unused behind the buffers: address and bytes
    """

    nodes: tuple[Node, ...]
    edges: tuple[tuple[int, int, int], ...]
    inputs: tuple[tuple[int, ...], ...]
    outputs: tuple[tuple[Output, ...], ...]
    pieces: tuple[int, ...]
    slack: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class HandOver:
    """What is handed over for one variant and case.

    pieces      mapped ranges: address and bytes
    workspaces  what the launches hold besides: address, bytes, and where the file has them
    attributes  sets of attributes of kernel nodes: the driver's number, and where the file has the value
    """

    base: int
    images: tuple[Stretch, ...]
    functions: tuple[Function, ...]
    attributes: tuple[tuple[tuple[int, int], ...], ...]
    pieces: tuple[tuple[int, int], ...]
    workspaces: tuple[tuple[int, int, int], ...]
    units: tuple[Unit, ...]


class Builder:
    """Collects bytes while a hand-over is put together, and writes the file."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def add(self, data: bytes) -> Stretch:
        self._parts.append(data)
        self._size += len(data)
        return Stretch(self._size - len(data), len(data))

    def write(self, path: Path, found: HandOver) -> None:
        text = json.dumps(asdict(found), separators=(",", ":")).encode()
        with path.open("wb") as file:
            file.write(_LENGTH.pack(len(text)) + text)
            file.writelines(self._parts)


@dataclass(frozen=True)
class Package:
    """A hand-over that was read and is possible, with its bytes, and the digest of its file."""

    found: HandOver
    data: memoryview
    digest: str

    def at(self, stretch: Stretch) -> bytes:
        return bytes(self.data[stretch.start : stretch.start + stretch.size])


def read(path: Path, digest: str = "") -> Package:
    """Read a hand-over, which may be any file. Raises BadHandOver, also if its digest is not the given one."""
    whole = _read(path)
    own = hashlib.sha256(whole).hexdigest()
    if digest not in ("", own):
        raise BadHandOver("it is not the one that was checked")
    length = _LENGTH.unpack_from(whole)[0] if len(whole) >= _LENGTH.size else _MOST_TEXT + 1
    start = _LENGTH.size + length
    _require(length <= _MOST_TEXT and start <= len(whole), "a text longer than its file")
    try:
        found = typed.build(HandOver, json.loads(whole[_LENGTH.size : start]))
    except (ValueError, TypeError, RecursionError) as error:
        raise BadHandOver(f"its text is no hand-over: {str(error)[:200]}") from None
    package = Package(found, memoryview(whole)[start:], own)
    _check(found, len(package.data))
    return package


def _read(path: Path) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise BadHandOver(f"its file cannot be read: {error.strerror}") from None
    try:
        status = os.fstat(descriptor)
        _require(stat.S_ISREG(status.st_mode) and status.st_size <= MOST_BYTES, "no plain file of a possible size")
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(MOST_BYTES)
    finally:
        os.close(descriptor)


def _check(found: HandOver, size: int) -> None:
    """Refuse foreign addresses, wrong counts, and bytes outside of the file."""
    _require(found.base in BASES, "addresses of others")
    most = max(len(found.pieces), len(found.workspaces), *(len(unit.slack) for unit in found.units))
    _require(most <= _MOST_STRETCHES, f"{most} stretches of memory")
    inside = range(found.base + PIECE, found.base + SPAN - PIECE)
    for first, length in found.pieces:
        is_whole = first % PIECE == 0 == length % PIECE
        _require(is_whole and first in inside and length > 0 and first + length in inside, f"memory at {first:#x}")
    _require(not overlap([(first, length + PIECE) for first, length in found.pieces]), "memory that overlaps")
    for image in found.images:
        _require(_is_in(image, size), "machine code outside of its file")
    for function in found.functions:
        _require(0 <= function.image < len(found.images) and _is_in(function.name, size), "a kernel of no machine code")
        is_possible = all(offset >= 0 < length for offset, length in function.parameters)
        _require(is_possible and function.parameter_bytes <= _MOST_PARAMETER_BYTES, "parameters that no kernel takes")
    for attributes in found.attributes:
        for number, start in attributes:
            known = 0 <= number < ATTRIBUTE_BYTES and _is_in(Stretch(start, ATTRIBUTE_BYTES), size)
            _require(known, "an attribute that no kernel has")
    for address, length, start in found.workspaces:
        _require(_lies_in(address, length, found.pieces), f"a workspace at {address:#x}, outside of its memory")
        _require(_is_in(Stretch(start, length), size), "a workspace outside of its file")
    _require(len(found.units) in (2, 3), f"{len(found.units)} graphs")
    for unit in found.units:
        _check_graph(unit, found, size)
        _check_buffers(unit, found)


def _check_graph(unit: Unit, found: HandOver, size: int) -> None:
    count = len(unit.nodes)
    _require(count <= _MOST_NODES, f"a graph of {count} nodes")
    _require(len(unit.edges) <= 2 * _MOST_NODES, f"a graph of {len(unit.edges)} edges")
    for node in unit.nodes:
        _require(node.kind in (KERNEL, COPY, FILL, EMPTY) and _is_in(node.raw, size), f"a node of type {node.kind}")
        if node.kind == KERNEL:
            is_known = 0 <= node.function < len(found.functions) and 0 <= node.attributes < len(found.attributes)
            _require(is_known, "a node of no kernel")
            _require(node.raw.size == found.functions[node.function].parameter_bytes, "parameters of another kernel")
            _require(min(*node.grid, *node.block) > 0 and max(node.grid) < _MOST_BLOCKS, f"a grid of {node.grid} blocks")
            _require(max(node.block) <= _MOST_THREADS, f"blocks of {node.block} threads")
            _require(0 <= node.shared < _MOST_SHARED, f"{node.shared} bytes of shared memory")
    for first, second, _ in unit.edges:
        _require(0 <= first < count and 0 <= second < count and first != second, "an edge to nowhere")


def _check_buffers(unit: Unit, found: HandOver) -> None:
    _require(all(0 <= number < len(found.pieces) for number in unit.pieces), "memory that it does not hand over")
    pieces = tuple(found.pieces[number] for number in unit.pieces)
    for output in (output for outputs in unit.outputs for output in outputs):
        _require(not output.size or _lies_in(output.address, output.size, pieces), "an output outside of its memory")
        is_alike = len(output.shape) == len(output.strides)
        _require(is_alike and min(output.offset, *output.shape, *output.strides) >= 0, "an output of no shape")
    _require(all(_lies_in(*part, pieces) for part in unit.slack), "memory behind its buffers that is not its own")
    for address in (address for inputs in unit.inputs for address in inputs):
        _require(not address or _lies_in(address, 1, pieces), "an input outside of its memory")


def other_work(found: HandOver) -> str:
    """What the timed launches do unlike the checked ones, such as a copy of an earlier output; "" if all do the same.

    Their kernels, copies and fills are counted: launches that were checked must be those that are timed.
    """
    first, *others = (_work(unit) for unit in found.units)
    for number, work in enumerate(others):
        launches = len(found.units[number + 1].outputs)
        if work != Counter({what: count * launches for what, count in first.items()}):
            return f"{launches} launches are not {launches} times the work of the one that is checked"
    return ""


def _work(unit: Unit) -> Counter[tuple[object, ...]]:
    """How often a unit launches each kernel with each grid, and how many copies and fills it does."""
    return Counter(
        (node.kind, node.function, node.grid, node.block, node.shared, node.attributes) for node in unit.nodes if node.kind != EMPTY
    )


def _is_in(stretch: Stretch, size: int) -> bool:
    return stretch.start >= 0 <= stretch.size and stretch.start + stretch.size <= size


def _lies_in(address: int, size: int, pieces: tuple[tuple[int, int], ...]) -> bool:
    return size >= 0 and any(first <= address and address + size <= first + length for first, length in pieces)


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise BadHandOver(f"it names {what}")
