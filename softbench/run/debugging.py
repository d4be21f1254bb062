"""`--softbench-debug`: one cell in pytest's own process, for breakpoint(), --pdb and any other debugger."""

from __future__ import annotations

from softbench.measure import device
from softbench.model import Case, Status, Variant
from softbench.run.selection import Selection
from softbench.run.settings import SettingsError

SEED = 1
"""Of the inputs, unless --softbench-seed gives one: a cell that is run again sees the same values."""
HEADER = "debug: one cell in this process; nothing is timed, recorded or kept from harm"


def require_one(selection: Selection) -> None:
    """Raises SettingsError unless exactly one cell is selected: what one cell leaves behind would change the next."""
    cells = [(case, variant) for case, variants in selection.takes_part.items() for variant in variants]
    if len(cells) != 1:
        case, variant = cells[0]
        example = f"-k '{case.id} and {variant.id}'"
        raise SettingsError(
            f"--softbench-debug runs one cell, and {len(cells)} are selected; name one, such as {example}"
        )


def run(case: Case, variant: Variant, seed: int | None) -> tuple[Status | None, str]:
    """Check a cell here: (None, "") if it passes, else a status and the reason. Raises what the implementation raises."""
    from softbench.measure.worker import in_process

    return in_process.prepare(case, variant, "cuda" if device.gpu() else "cpu", SEED if seed is None else seed)
