"""How a kernel is launched: its grid and threads, and how it overlaps with the launch before it and the one behind."""

from __future__ import annotations

import cutlass
import cutlass.cute as cute
from cutlass import Int32

from .config import ElementwiseTileConfig, SplitTileConfig


def launch_rows(kernel: object, config: ElementwiseTileConfig, rows: Int32, stream: object, pdl: bool) -> None:
    """Launch a kernel that has its arguments: a CTA takes `config.rows` of the rows, or a cluster takes one, and of
    several a thread each as many (`beside`).

    pdl  the launch may begin while the one before it ends, for a kernel that begins with `overlap`
    """
    kernel.launch(
        grid=[groups(rows, config), config.cluster, 1],
        block=[config.threads, 1, 1],
        cluster=[1, config.cluster, 1] if config.cluster > 1 else None,
        stream=stream,
        use_pdl=pdl,
    )


def groups(rows: Int32, config: ElementwiseTileConfig) -> Int32:
    """CTAs, or clusters, for so many rows."""
    return cute.ceil_div(rows, config.rows * config.rows_per_thread)


def beside(tensor: cute.Tensor | None, number: int, config: ElementwiseTileConfig) -> cute.Tensor | None:
    """The part of a matrix, or of a vector of one value a row, in which the rows number `number` of all threads lie.

    There are `config.rows_per_thread` parts, of as many rows as the grid has groups. Where rows are no multiple of the
    parts, neighbours have rows in common, which are done twice and alike.
    """
    if tensor is None or number == 0:
        return tensor
    part = groups(tensor.shape[0], config)
    start = cutlass.min(number * part, tensor.shape[0] - part)
    return cute.domain_offset((start, 0)[: cute.rank(tensor)], tensor)


def launch_split(kernel: object, config: SplitTileConfig, stream: object, pdl: bool) -> None:
    """Launch a kernel that has its arguments: all CTAs are on the GPU at once, and each takes a share of every row.

    pdl  as in `launch_rows`
    """
    kernel.launch(
        grid=[config.ctas, 1, 1],
        block=[config.cta_threads, 1, 1],
        cooperative=True,
        stream=stream,
        use_pdl=pdl,
    )


def overlap(pdl: bool) -> None:
    """The begin of a kernel: let the next launch begin, and wait until the one before has ended and its output is there.

    Without pdl launches do not overlap, and there is nothing to wait for.
    """
    if pdl:
        cute.arch.griddepcontrol_launch_dependents()
        cute.arch.griddepcontrol_wait()
