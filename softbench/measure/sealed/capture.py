"""An author's side: captures launches, and puts together what the referee needs to rebuild them. Nothing is timed here."""

import ctypes
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from ctypes import byref, c_char_p, c_int, c_size_t, c_ubyte, c_void_p
from dataclasses import replace
from pathlib import Path
from typing import Any

from softbench.cases.operators.outputs import as_tuple, lazy
from softbench.measure.sealed import driver
from softbench.measure.sealed.addresses import overlap, without
from softbench.measure.sealed.driver import ATTRIBUTE_BYTES, COPY, EMPTY, FILL, KERNEL, KernelParams
from softbench.measure.sealed.handover import Builder, Function, HandOver, Node, Output, Stretch, Unit
from softbench.measure.sealed.images import Images
from softbench.model import Tensor

NODE_ATTRIBUTES = (1, 2, 4, 5, 8, 9, 10, 11, 13, 14, 16)
"""The driver's numbers of what a kernel node can carry: cluster, cooperation, priority, shared memory carve-out and others."""
FUNCTION_LIMITS = (8, 9, 14, 15)
"""The driver's numbers of what a process can set of a function."""
MOST_WORKSPACE_BYTES = 256 << 20
_RELAXED = 2
_WORD = 8
_LOWEST, _HIGHEST = 1 << 20, 1 << 57


class Unsealable(Exception):
    """Launches that cannot be handed over; the message says why, in one line."""


@contextmanager
def captured(stream: Any) -> Iterator[c_void_p]:
    """Capture what the block does on a stream, by the driver: torch's own capture takes a memory pool of its own.

    Raises Unsealable if that cannot be.
    """
    graph, raw = c_void_p(), c_void_p(stream.cuda_stream)
    driver.driver().cuStreamBeginCapture_v2(raw, c_int(_RELAXED))
    try:
        yield graph
    except Exception as error:
        driver.driver().status("cuStreamEndCapture")(raw, byref(graph))
        said = " ".join(str(error).split())[:200]
        raise Unsealable(f"it cannot be captured in a CUDA graph ({type(error).__name__}: {said})") from error
    try:
        driver.driver().cuStreamEndCapture(raw, byref(graph))
    except driver.DriverError as error:
        raise Unsealable(f"it cannot be captured in a CUDA graph ({error})") from None


class Capture:
    """Puts a hand-over together, one unit after the other."""

    def __init__(self, images: Images, holds: Callable[[int], bool]) -> None:
        self._images, self._holds = images, holds
        self._builder = Builder()
        self._image_numbers: dict[str, int] = {}
        self._image_places: list[Stretch] = []
        self._functions: dict[int, int] = {}
        self._described: list[Function] = []
        self._attributes: dict[tuple[tuple[int, bytes], ...], int] = {}
        self._sets: list[tuple[tuple[int, int], ...]] = []
        self._units: list[Unit] = []

    def add(self, graph: c_void_p, inputs: Sequence[tuple[Tensor, ...]], outputs: Sequence[Any]) -> None:
        """One unit: a captured graph, the sets of inputs it reads, what each launch returned. Raises Unsealable."""
        returned = [tuple(map(_output, as_tuple(output))) for output in outputs]
        nodes, edges = self._graph(graph)
        self._units.append(Unit(nodes, edges, tuple(tuple(map(_storage, call)) for call in inputs), tuple(returned), ()))

    def write(
        self,
        path: Path,
        base: int,
        pieces: Sequence[tuple[int, int]],
        used: Sequence[tuple[int, int]],
        allocated: Sequence[tuple[int, int]],
        of_last: int,
    ) -> None:
        """Write the hand-over. `used` are the blocks in use: what is neither input nor output is a workspace.

        allocated  all that a launch may have written, also what it freed
        of_last    the first address of the last unit's own memory, if there are three
        """
        held = [(address, 1) for unit in self._units for call in unit.inputs for address in call if address]
        held += [(y.address, y.size) for unit in self._units for outputs in unit.outputs for y in outputs]
        spaces = [block for block in used if not any(overlap([block, other]) for other in held)]
        if sum(size for _, size in spaces) > MOST_WORKSPACE_BYTES:
            raise Unsealable(f"its workspaces take {sum(size for _, size in spaces) >> 20} MiB")
        workspaces = tuple((a, size, self._builder.add(driver.read_bytes(a, size)).start) for a, size in spaces)
        with_spaces = {n for n, (a, size) in enumerate(pieces) for b, _ in spaces if a <= b < a + size}
        own = {n for n, (address, _) in enumerate(pieces) if address >= of_last}
        of_checks = tuple(n for n in range(len(pieces)) if n not in own)
        of_timed = tuple(sorted(own | with_spaces))
        units = tuple(
            replace(unit, pieces=of_timed if n == 2 else of_checks, slack=_slack(unit, used, allocated))
            for n, unit in enumerate(self._units)
        )
        found = HandOver(
            base, tuple(self._image_places), tuple(self._described), tuple(self._sets), tuple(pieces), workspaces, units
        )
        try:
            self._builder.write(path, found)
        except OSError as error:
            raise Unsealable(f"its hand-over cannot be written: {error.strerror}") from None

    def _graph(self, graph: c_void_p) -> tuple[tuple[Node, ...], tuple[tuple[int, int, int], ...]]:
        cuda, count = driver.driver(), c_size_t()
        cuda.cuGraphGetNodes(graph, None, byref(count))
        if not count.value:  # nothing was enqueued, as for a case without elements
            return (), ()
        handles = (c_void_p * count.value)()
        cuda.cuGraphGetNodes(graph, handles, byref(count))
        number = {handle: n for n, handle in enumerate(handles)}
        nodes = tuple(self._node(handle) for handle in number)
        edges = c_size_t()
        cuda.cuGraphGetEdges_v2(graph, None, None, None, byref(edges))
        first, second, about = ((kind * edges.value)() for kind in (c_void_p, c_void_p, ctypes.c_uint64))
        if edges.value:
            cuda.cuGraphGetEdges_v2(graph, first, second, about, byref(edges))
        return nodes, tuple((number[a], number[b], c) for a, b, c in zip(first, second, about, strict=True))

    def _node(self, handle: int) -> Node:
        kind = c_int()
        driver.driver().cuGraphNodeGetType(c_void_p(handle), byref(kind))
        if kind.value == KERNEL:
            return self._kernel(handle)
        if kind.value == EMPTY:
            return Node(EMPTY, Stretch(0, 0))
        if kind.value == FILL:
            fill = driver.FillParams()
            driver.driver().cuGraphMemsetNodeGetParams(c_void_p(handle), byref(fill))
            self._own([fill.address], "a fill")
            return Node(FILL, self._builder.add(bytes(fill)))
        if kind.value == COPY:
            copy = driver.CopyParams()
            driver.driver().cuGraphMemcpyNodeGetParams(c_void_p(handle), byref(copy))
            if not copy.is_on_device:
                raise Unsealable("it copies between the host and the GPU")
            self._own([copy.source.address, copy.target.address], "a copy")
            return Node(COPY, self._builder.add(bytes(copy)))
        words = {3: "a function of the host", 4: "a graph in its graph", 6: "an event", 7: "an event", 10: "an allocation"}
        raise Unsealable(f"its graph holds {words.get(kind.value, f'a node of type {kind.value}')}")

    def _kernel(self, handle: int) -> Node:
        params = KernelParams()
        driver.driver().cuGraphKernelNodeGetParams_v2(c_void_p(handle), byref(params))
        at = self._function(params.func, params.kern)
        raw = _parameters(params, self._described[at].parameters)
        self._own(_words(raw), "a kernel")
        return Node(
            KERNEL, self._builder.add(raw), at, tuple(params.grid), tuple(params.block), params.shared, self._set_of(handle)
        )

    def _own(self, words: Iterable[int], what: str) -> None:
        """Raises Unsealable for an address of the GPU that is none of the arena's."""
        for word in words:
            if _LOWEST <= word < _HIGHEST and not self._holds(word) and driver.is_device_address(word):
                raise Unsealable(f"{what} is given memory that torch did not allocate, at {word:#x}")

    def _function(self, func: int | None, kern: int | None) -> int:
        key = kern or func or 0
        if key in self._functions:
            return self._functions[key]
        name, get = c_char_p(), driver.driver().status
        if func and get("cuFuncGetName")(byref(name), c_void_p(func)):
            func, kern = None, func  # the runtime's handles of kernels stand in the place of functions
        if not func:
            found = c_void_p()
            driver.driver().cuKernelGetFunction(byref(found), c_void_p(kern))
            func = found.value
            driver.driver().cuFuncGetName(byref(name), c_void_p(func))
        text = name.value or b""
        try:
            digest = self._images.of_kernel(func, kern, text)
        except LookupError as error:
            raise Unsealable(str(error)) from None
        limits = tuple((number, function_attribute(func, number)) for number in FUNCTION_LIMITS)
        described = Function(self._builder.add(text), self._image(digest), layout_of(func, kern), limits)
        self._described.append(described)
        self._functions[key] = len(self._described) - 1
        return self._functions[key]

    def _image(self, digest: str) -> int:
        if digest not in self._image_numbers:
            self._image_numbers[digest] = len(self._image_places)
            self._image_places.append(self._builder.add(self._images.images[digest]))
        return self._image_numbers[digest]

    def _set_of(self, handle: int) -> int:
        found = []
        for number in NODE_ATTRIBUTES:
            value = (c_ubyte * ATTRIBUTE_BYTES)()
            get = driver.driver().status("cuGraphKernelNodeGetAttribute")
            if get(c_void_p(handle), c_int(number), byref(value)) == 0:
                found.append((number, bytes(value)))
        key = tuple(found)
        if key not in self._attributes:
            self._attributes[key] = len(self._sets)
            self._sets.append(tuple((number, self._builder.add(value).start) for number, value in key))
        return self._attributes[key]


def _slack(unit: Unit, used: Sequence[tuple[int, int]], allocated: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """What lies between the ends of outputs and of their blocks, and was never part of an allocation."""
    block, held = dict(used), list(allocated)
    ends = {(y.address + y.size, y.address + block[y.address]) for call in unit.outputs for y in call if y.address in block}
    return tuple(part for end, last in sorted(ends) for part in without((end, last - end), held))


def _words(raw: bytes) -> Iterator[int]:
    return (int.from_bytes(raw[at : at + _WORD], "little") for at in range(0, len(raw) - _WORD + 1, 4))


def _parameters(params: KernelParams, layout: Sequence[tuple[int, int]]) -> bytes:
    if params.params:
        pointers = (c_void_p * len(layout)).from_address(params.params)
        return b"".join(ctypes.string_at(at, size) for at, (_, size) in zip(pointers, layout, strict=True))
    packed = _packed(params.extra)
    return b"".join(packed[offset : offset + size] for offset, size in layout)


def _packed(extra: int | None) -> bytes:
    """Parameters that were given as one buffer: pairs of a key and a pointer say where it is, and where its size is."""
    found, at = {1: 0, 2: 0}, 0
    pairs = ctypes.cast(extra or 0, ctypes.POINTER(c_void_p))
    while extra and (key := pairs[at]):
        found[key], at = pairs[at + 1] or 0, at + 2
    return ctypes.string_at(found[1], c_size_t.from_address(found[2]).value) if all(found.values()) else b""


def layout_of(func: int | None, kern: int | None) -> tuple[tuple[int, int], ...]:
    """Offset and bytes of each parameter."""
    found: list[tuple[int, int]] = []
    for name, handle in (("cuFuncGetParamInfo", func), ("cuKernelGetParamInfo", kern)):
        get, offset, size = driver.driver().status(name), c_size_t(), c_size_t()
        while handle and not get(c_void_p(handle), c_size_t(len(found)), byref(offset), byref(size)):
            found.append((offset.value, size.value))
        if found:
            break
    return tuple(found)


def function_attribute(func: int | None, number: int) -> int:
    value = c_int()
    driver.driver().cuFuncGetAttribute(byref(value), c_int(number), c_void_p(func))
    return value.value


def _storage(x: Tensor) -> int:
    return int(x.untyped_storage().data_ptr())


def _output(y: Any) -> Output:
    import torch

    if not issubclass(type(y), torch.Tensor) or lazy(y) or y.layout is not torch.strided or not y.is_cuda:
        raise Unsealable("it returns something else than plain tensors on the GPU")
    storage, dtype = y.untyped_storage(), str(y.dtype).removeprefix("torch.")
    size = int(storage.nbytes()) if y.numel() else 0
    return Output(int(storage.data_ptr()) if size else 0, size, int(y.storage_offset()), tuple(y.shape), tuple(y.stride()), dtype)
