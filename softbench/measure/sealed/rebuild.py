"""A referee's graphs: rebuilt, node by node, from what was handed over."""

import ctypes
from collections.abc import Iterator, Sequence
from ctypes import byref, c_char_p, c_int, c_size_t, c_ubyte, c_uint64, c_void_p
from graphlib import CycleError, TopologicalSorter
from typing import Any

from softbench.measure.sealed import driver
from softbench.measure.sealed.capture import FUNCTION_LIMITS, function_attribute, layout_of
from softbench.measure.sealed.driver import ATTRIBUTE_BYTES, COPY, FILL, KERNEL, CopyParams, FillParams, KernelParams
from softbench.measure.sealed.handover import BadHandOver, Function, Node, Package, Unit
from softbench.model import KernelResources

_SHARED, _STACK, _REGISTERS = 1, 3, 4
_LONGEST_NAME = 120


class Rebuilt:
    """The machine code of a hand-over, loaded, and graphs made of it. Raises BadHandOver, and DriverError."""

    def __init__(self, package: Package) -> None:
        self._package = package
        self._modules: dict[int, c_void_p] = {}
        self._functions = [self._function(function) for function in package.found.functions]
        self._graphs: list[c_void_p] = []

    @property
    def resources(self) -> tuple[KernelResources, ...]:
        """What the kernels use, from the machine code itself."""
        found = []
        for function, described in zip(self._functions, self._package.found.functions, strict=True):
            name = self._package.at(described.name).decode(errors="replace")[:_LONGEST_NAME]
            figures = (function_attribute(function.value, number) for number in (_REGISTERS, _STACK, _SHARED))
            found.append(KernelResources(name, *figures))
        return tuple(found)

    def graph(self, unit: Unit) -> c_void_p:
        """An executable graph of a unit."""
        cuda, graph, executable = driver.driver(), c_void_p(), c_void_p()
        cuda.cuGraphCreate(byref(graph), 0)
        try:
            handles: dict[int, int] = {}
            for number, edges in _in_order(unit):
                before = [(handles[first], about) for first, about in edges]
                handles[number] = self._add(graph, unit.nodes[number], before)
            cuda.cuGraphInstantiateWithFlags(byref(executable), graph, c_uint64(0))
        finally:
            cuda.cuGraphDestroy(graph)
        self._graphs.append(executable)
        return executable

    def close(self) -> None:
        for graph in self._graphs:
            driver.driver().cuGraphExecDestroy(graph)
        for module in self._modules.values():
            driver.driver().cuModuleUnload(module)
        self._graphs.clear()
        self._modules.clear()

    def _function(self, described: Function) -> c_void_p:
        cuda, found = driver.driver(), c_void_p()
        name = self._package.at(described.name)
        cuda.cuModuleGetFunction(byref(found), self._module(described.image), c_char_p(name))
        if layout_of(found.value, None) != described.parameters:
            raise BadHandOver(f"its kernel {name.decode(errors='replace')[:_LONGEST_NAME]!r} takes other parameters")
        for number, value in described.limits:
            if number in FUNCTION_LIMITS and function_attribute(found.value, number) != value:
                cuda.cuFuncSetAttribute(found, c_int(number), c_int(value))
        return found

    def _module(self, number: int) -> c_void_p:
        if number not in self._modules:
            image, module = self._package.at(self._package.found.images[number]), c_void_p()
            driver.driver().cuModuleLoadData(byref(module), c_char_p(image))
            self._modules[number] = module
        return self._modules[number]

    def _add(self, graph: c_void_p, node: Node, before: Sequence[tuple[int, int]]) -> int:
        """Add a node behind others, each a handle and the driver's eight bytes about the edge."""
        cuda, handle, context = driver.driver(), c_void_p(), c_void_p()
        raw = self._package.at(node.raw)
        cuda.cuCtxGetCurrent(byref(context))
        room, count = max(1, len(before)), c_size_t(len(before))
        others, about = (c_void_p * room)(*(a for a, _ in before)), (c_uint64 * room)(*(data for _, data in before))
        if node.kind == KERNEL:
            self._add_kernel(graph, node, raw, handle, others, about, count)
        elif node.kind == FILL:
            fill = _structure(FillParams, raw)
            cuda.cuGraphAddMemsetNode(byref(handle), graph, others, count, byref(fill), context)
        elif node.kind == COPY:
            copy = _structure(CopyParams, raw)
            if not copy.is_on_device:
                raise BadHandOver("it copies between the host and the GPU")
            cuda.cuGraphAddMemcpyNode(byref(handle), graph, others, count, byref(copy), context)
        else:
            cuda.cuGraphAddEmptyNode(byref(handle), graph, others, count)
        return handle.value or 0

    def _add_kernel(self, graph: c_void_p, node: Node, raw: bytes, handle: c_void_p, *behind: Any) -> None:
        buffers, at = [], 0
        for _, size in self._package.found.functions[node.function].parameters:
            buffers.append(ctypes.create_string_buffer(raw[at : at + size], size))
            at += size
        pointers = (c_void_p * max(1, len(buffers)))(*map(ctypes.addressof, buffers))
        params = KernelParams(self._functions[node.function].value, node.grid, node.block, node.shared, ctypes.addressof(pointers))
        cuda = driver.driver()
        whole = driver.KernelNodeParams(kind=KERNEL, kernel=params)
        cuda.cuGraphAddNode_v2(byref(handle), graph, *behind, byref(whole))
        for number, start in self._package.found.attributes[node.attributes]:
            wanted = self._package.data[start : start + ATTRIBUTE_BYTES]
            value = (c_ubyte * ATTRIBUTE_BYTES)()
            get = cuda.status("cuGraphKernelNodeGetAttribute")
            if get(handle, c_int(number), byref(value)) == 0 and bytes(value) != wanted:
                value = (c_ubyte * ATTRIBUTE_BYTES).from_buffer_copy(wanted)
                cuda.cuGraphKernelNodeSetAttribute(handle, c_int(number), byref(value))


def _structure(kind: type, raw: bytes) -> FillParams | CopyParams:
    if len(raw) != ctypes.sizeof(kind):
        raise BadHandOver("it names a node of another size")
    found: FillParams | CopyParams = kind.from_buffer_copy(raw)  # type: ignore[attr-defined]
    return found


def _in_order(unit: Unit) -> Iterator[tuple[int, list[tuple[int, int]]]]:
    """Nodes by number, each behind those that it waits for: their numbers, and the driver's eight bytes about the edge.

    A node is made together with its edges, as a capture does: added in one call to finished nodes, all edges were of the first
    one's kind (driver 580.159), and kernels began before the ones ahead had ended. Raises BadHandOver for edges in a circle.
    """
    edges: dict[int, list[tuple[int, int]]] = {number: [] for number in range(len(unit.nodes))}
    for first, second, about in unit.edges:
        edges[second].append((first, about))
    order = TopologicalSorter({number: [first for first, _ in found] for number, found in edges.items()})
    try:
        for number in order.static_order():
            yield number, edges[number]
    except CycleError:
        raise BadHandOver("it names edges that go round in a circle") from None
