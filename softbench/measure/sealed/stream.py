"""Launches in a row for a profiler, of those that were handed over. Pure."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from softbench.measure.sealed.driver import COPY, EMPTY, FILL, KERNEL, CopyParams, FillParams
from softbench.measure.sealed.handover import HandOver, Package, Unit, other_work


@dataclass(frozen=True)
class Stream:
    """A graph of launches that is replayed.

    calls    how many count: the second half
    kernels  of all replays together
    unseen   bytes that copies and fills of a call read and write, which a profiler of kernels does not count
    """

    replay: Callable[[], None]
    replays: int
    calls: int
    kernels: int
    unseen: int


def stream(package: Package, calls: int, graph_of: Callable[[Unit], Callable[[], None]]) -> Stream:
    """The first 2 * `calls` timed launches or, if there are fewer, all of them, replayed until there are as many."""
    part = first_launches(package.found, 2 * calls)
    launches = len(part.outputs)
    replays = -(-2 * calls // launches)
    replays += replays * launches % 2  # half of them must be whole calls
    kernels = sum(node.kind == KERNEL for node in part.nodes)
    unseen = sum(_moved(package.at(node.raw), node.kind) for node in part.nodes) // launches
    return Stream(graph_of(part), replays, replays * launches // 2, replays * kernels, unseen)


def _moved(raw: bytes, kind: int) -> int:
    """Bytes that a copy or a fill reads and writes; 0 for other nodes."""
    if kind == FILL:
        fill = FillParams.from_buffer_copy(raw)
        return int(fill.element * fill.width * fill.height)
    if kind == COPY:
        copy = CopyParams.from_buffer_copy(raw)
        return int(2 * copy.width * copy.height * copy.depth)
    return 0


def first_launches(found: HandOver, most: int) -> Unit:
    """The first of the timed launches; all of them if the first ones cannot be told from the others."""
    one, _, whole = found.units
    each = sum(node.kind != EMPTY for node in one.nodes)
    ends = [at + 1 for at, node in enumerate(whole.nodes) if node.kind != EMPTY]
    if not 0 < most < len(whole.outputs) or not 0 < most * each <= len(ends):
        return whole
    end = ends[most * each - 1]
    edges = tuple(edge for edge in whole.edges if edge[1] < end)
    part = replace(whole, nodes=whole.nodes[:end], edges=edges, outputs=whole.outputs[:most])
    is_closed = all(first < end for first, _, _ in edges)
    return part if is_closed and not other_work(replace(found, units=(one, part))) else whole
