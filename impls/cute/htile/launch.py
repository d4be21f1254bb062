"""How a kernel is launched: its grid and threads, and how it overlaps with the launch before it and the one behind."""

from __future__ import annotations

import cutlass.cute as cute
from cutlass import Int32

from .config import COURIER_THREADS, ElementwiseTileConfig, SplitTileConfig


def launch_rows(kernel: object, config: ElementwiseTileConfig, rows: Int32, stream: object, pdl: bool) -> None:
    """Launch a kernel that has its arguments: a CTA takes `config.rows` of the rows, or a cluster takes one.

    pdl  the launch may begin while the one before it ends, for a kernel that begins with `overlap`
    """
    kernel.launch(
        grid=[cute.ceil_div(rows, config.rows), config.cluster, 1],
        block=[config.threads, 1, 1],
        cluster=[1, config.cluster, 1] if config.cluster > 1 else None,
        stream=stream,
        use_pdl=pdl,
    )


def launch_split(kernel: object, config: SplitTileConfig, stream: object, pdl: bool) -> None:
    """Launch a kernel that has its arguments: all CTAs are on the GPU at once, and each takes a share of every row.

    pdl  as in `launch_rows`
    """
    kernel.launch(
        grid=[config.ctas * config.groups, 1, 1],
        block=[config.threads + COURIER_THREADS, 1, 1],
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
