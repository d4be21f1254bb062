"""How a kernel is launched: its grid, and how it overlaps with the launches before and after it.

A launch may begin while the previous one ends, so every kernel begins with `overlap`.
"""

from __future__ import annotations

import cutlass
import cutlass.cute as cute
from cutlass import Int32

from .config import RowTileConfig, SplitTileConfig
from .packing import PackedTileConfig


def launch_rows(kernel, config: RowTileConfig, rows: Int32, stream):
    """Launch a kernel that has its arguments: a CTA takes `config.rows` rows, or a cluster takes one; with several rows
    per thread, that many times as many (`row_part`).
    """
    cluster = [1, config.cluster, 1] if config.cluster > 1 and not config.apart else None
    grid, block = [groups(rows, config), config.cluster, 1], [config.threads, 1, 1]
    if config.apart:
        grid = [grid[0] * grid[1], 1, 1]
    least = {"min_blocks_per_mp": 2, "preferred_smem_carveout": 100} if config.beside else {}
    kernel.launch(grid=grid, block=block, cluster=cluster, stream=stream, use_pdl=True, **least)


def own_place(config: RowTileConfig) -> tuple[Int32, Int32 | int]:
    """(group, CTA of it) of this thread; read at each use, because kept it would take registers."""
    x, y, _ = cute.arch.block_idx()
    if config.apart:
        return x // config.cluster, x % config.cluster
    return x, y if config.cluster > 1 else 0


def groups(rows: Int32, config: RowTileConfig) -> Int32:
    """The number of CTAs, or clusters, for `rows` rows."""
    return cute.ceil_div(rows, config.rows * config.rows_per_thread)


def row_part(tensor: cute.Tensor | None, number: int, config: RowTileConfig) -> cute.Tensor | None:
    """The part of a matrix, or of a vector of one value per row, that holds every thread's row number `number`.

    There are `config.rows_per_thread` parts, each with one row per group of the grid. Where the rows are no multiple of
    the parts, two parts share rows, which are computed twice with the same result.
    """
    if tensor is None or number == 0:
        return tensor
    part = groups(tensor.shape[0], config)
    start = cutlass.min(number * part, tensor.shape[0] - part)
    return cute.domain_offset((start, 0)[: cute.rank(tensor)], tensor)


def launch_packed(kernel, config: PackedTileConfig, rows: Int32, stream):
    """Launch a kernel that has its arguments: a CTA takes `config.rows` dense rows."""
    kernel.launch(grid=[cute.ceil_div(rows, config.rows), 1, 1], block=[config.threads, 1, 1], stream=stream, use_pdl=True)


def launch_split(kernel, config: SplitTileConfig, stream):
    """Launch a kernel that has its arguments: all CTAs are on the GPU at once, and each takes a share of every row."""
    grid, block = [config.ctas * config.crews, 1, 1], [config.cta_threads, 1, 1]
    kernel.launch(grid=grid, block=block, cooperative=True, stream=stream, use_pdl=True)


def overlap():
    """The start of a kernel: let the next launch begin, then wait until the previous one has ended and its output is there."""
    cute.arch.griddepcontrol_launch_dependents()
    cute.arch.griddepcontrol_wait()
