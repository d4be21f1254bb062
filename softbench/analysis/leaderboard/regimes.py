"""Regimes: kinds of cases that ask different things of a kernel, told apart by rows and bytes a row, or by flops a byte."""

from __future__ import annotations

from dataclasses import dataclass

from softbench.analysis.leaderboard.board import CaseBoard
from softbench.model import BALANCE, DTYPE_BYTES

FEW_ROWS = 128
"""Fewer rows than the 132 multiprocessors of an H100, H800 or H200: with a block a row, some have nothing to do."""
SMALL_ROW_BYTES = 4096
"""A row that the registers of one warp hold."""
MEDIUM_ROW_BYTES = 65536
"""A row that the registers of one block hold in float32, whatever the dtype."""


@dataclass(frozen=True)
class Regime:
    """A name that is short enough for a table's header, and what it means."""

    name: str
    definition: str


FEW = Regime("few rows", f"fewer than {FEW_ROWS} rows, whatever their length")
SMALL = Regime("small rows", f"rows of up to {SMALL_ROW_BYTES // 1024} KiB")
MEDIUM = Regime("medium rows", f"rows of up to {MEDIUM_ROW_BYTES // 1024} KiB")
LARGE = Regime("large rows", f"rows of more than {MEDIUM_ROW_BYTES // 1024} KiB")
MEMORY = Regime("memory-bound", f"fewer than {BALANCE:g} flops a byte")
ARITHMETIC = Regime(
    "arithmetic-bound", f"{BALANCE:g} flops a byte or more, where the tensor cores are the nearer limit"
)
REGIMES = (SMALL, MEDIUM, LARGE, FEW, MEMORY, ARITHMETIC)


def regime(board: CaseBoard) -> Regime:
    """The one regime that a case belongs to: where flops count by them, else by its rows; bytes are those of its input."""
    if board.flops_a_byte:
        return ARITHMETIC if board.flops_a_byte >= BALANCE else MEMORY
    case = board.case
    row_bytes = case.columns * DTYPE_BYTES[case.dtype]
    if case.rows < FEW_ROWS:
        return FEW
    return SMALL if row_bytes <= SMALL_ROW_BYTES else MEDIUM if row_bytes <= MEDIUM_ROW_BYTES else LARGE
