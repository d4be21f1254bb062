"""Files that are not its own."""

import os
from pathlib import Path
from typing import Any

from softbench import implementation


@implementation(operator="softmax")
def files_of_others(case: Any) -> Any:
    """Opens softbench's own source, another's and the records, to add to them; it adds nothing."""
    doctor = Path(__file__).parents[1]
    wanted, refused = [doctor / "examples.py", doctor / "twins" / "twins.py", *Path("reports").glob("*.jsonl")], []
    for path in wanted:
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_APPEND))
        except PermissionError as error:
            refused.append(error)
    if len(refused) == len(wanted):
        raise refused[0]
    return lambda x: x.softmax(-1)
