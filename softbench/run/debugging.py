"""`--softbench-debug`: one cell in pytest's own process, for breakpoint(), --pdb and any other debugger."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from softbench.measure import device
from softbench.model import Case, Status, Variant
from softbench.run.settings import SettingsError

SEED = 1
"""Of the inputs, unless --softbench-seed gives one: a cell that is run again sees the same values."""
HEADER = "debug: one cell in this process; nothing is timed, recorded or kept from harm"


def further(cells: Sequence[tuple[Case, Variant]]) -> range:
    """The places of cells that are not run: all but the first, if they are one implementation's variants on one case."""
    names = {(case, variant.path, variant.implementation) for case, variant in cells}
    return range(1, len(cells)) if len(names) == 1 else range(0)


def require_one(ids: Sequence[str]) -> None:
    """Raises SettingsError unless one cell is selected, by its id: what one cell leaves behind would change the next."""
    if len(ids) > 1:
        example = f"-k or an id, such as {shlex.quote(ids[0])}"
        raise SettingsError(f"--softbench-debug runs one cell, and {len(ids)} are selected; name one by {example}")


def run(case: Case, variant: Variant, seed: int | None) -> tuple[Status | None, str]:
    """Check a cell here: (None, "") if it passes, else a status and the reason. Raises what the implementation raises."""
    from softbench.measure.worker import in_process

    return in_process.prepare(case, variant, "cuda" if device.gpu() else "cpu", SEED if seed is None else seed)
