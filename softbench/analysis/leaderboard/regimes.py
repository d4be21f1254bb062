"""Regimes: kinds of cases with different demands on a kernel, by rows and bytes per row, or by flops per byte."""

from dataclasses import dataclass

from softbench.analysis.leaderboard.board import CaseBoard
from softbench.model import BALANCE, DTYPE_BYTES

FEW_ROWS = 128
"""Fewer rows than the 132 multiprocessors of an H100, H800 or H200: with one block per row some are idle."""
SMALL_ROW_BYTES = 4096
"""A row that fits the registers of one warp."""
MEDIUM_ROW_BYTES = 65536
"""A row that fits the registers of one block in float32, whatever the dtype."""


@dataclass(frozen=True)
class Regime:
    """A name short enough for the header of a table, and its definition."""

    name: str
    definition: str


FEW = Regime("few rows", f"fewer than {FEW_ROWS} rows, whatever their length")
SMALL = Regime("small rows", f"rows of up to {SMALL_ROW_BYTES // 1024} KiB")
MEDIUM = Regime("medium rows", f"rows of up to {MEDIUM_ROW_BYTES // 1024} KiB")
LARGE = Regime("large rows", f"rows of more than {MEDIUM_ROW_BYTES // 1024} KiB")
MEMORY = Regime("memory-bound", f"fewer than {BALANCE:g} flops per byte")
ARITHMETIC = Regime("arithmetic-bound", f"{BALANCE:g} flops per byte or more, where the tensor cores are the nearer limit")
REGIMES = (SMALL, MEDIUM, LARGE, FEW, MEMORY, ARITHMETIC)


def regime(board: CaseBoard) -> Regime:
    """The regime of a case: by its flops if they count, else by its rows and the bytes of its input."""
    if board.flops_a_byte:
        return ARITHMETIC if board.flops_a_byte >= BALANCE else MEMORY
    case = board.case
    row_bytes = case.columns * DTYPE_BYTES[case.dtype]
    if case.rows < FEW_ROWS:
        return FEW
    return SMALL if row_bytes <= SMALL_ROW_BYTES else MEDIUM if row_bytes <= MEDIUM_ROW_BYTES else LARGE
