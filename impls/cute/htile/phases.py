"""Mbarriers by which warps of a CTA tell one another how far a row is."""

from __future__ import annotations

import cutlass.cute as cute
from cutlass import Int32, Int64

from .split import SplitContext


class Phases:
    """An mbarrier for each of `count` consecutive rows."""

    def __init__(self, context: SplitContext, count: int):
        self.count, self.first = count, context.memory.allocate_array(Int64, count)

    def of(self, row: int | Int32) -> cute.Pointer:
        return self.first + row % self.count


def wait(phases: Phases, row: int | Int32):
    """Wait until all threads have told that a row has reached this step."""
    cute.arch.mbarrier_wait(phases.of(row), row // phases.count % 2)


def tell(phases: Phases, row: int | Int32):
    """Tell that this thread has done its part of a row."""
    cute.arch.mbarrier_arrive(phases.of(row))
