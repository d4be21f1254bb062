"""`--softbench-debug`: one cell in pytest's own process, for breakpoint(), --pdb and any other debugger."""

import shlex
from collections.abc import Sequence

from softbench.session.settings import SettingsError

SEED = 1
"""Of the inputs, unless --softbench-seed gives one: a cell that is run again sees the same values."""
SANITIZER = "compute-sanitizer"
"""Of a section of the report, beside what was printed."""
HEADER = "debug: one cell in this process; nothing is timed, recorded or kept from harm"


def require_one(ids: Sequence[str]) -> None:
    """Raises SettingsError unless one cell is selected, by its id: what one cell leaves behind would change the next."""
    if len(ids) > 1:
        example = f"-k or an id, such as {shlex.quote(ids[0])}"
        raise SettingsError(f"--softbench-debug runs one cell, and {len(ids)} are selected; name one by {example}")
