"""Hard inputs of operators of files, by a case's distribution: ``peaked`` is the first input drawn so, ``gate-peaked`` the input
`gate`; any other word is a function of the file.
"""

from collections.abc import Sequence
from typing import Any

from softbench.cases.operators.distributions import DISTRIBUTIONS
from softbench.cases.operators.streams import Stream
from softbench.resources import choose_from


def words(value: Any, reads: Sequence[Stream]) -> tuple[str, ...]:
    """Those of a declaration, {input: [distribution]}. Raises ValueError of one line."""
    if not isinstance(value, dict) or not all(isinstance(some, list) for some in value.values()):
        raise ValueError("hard is a dict of inputs and their distributions, such as {'x': ['peaked']}")
    starts = {s.name: f"{s.name}-" if s != reads[0] else "" for s in reads if not s.is_whole}
    found = [(name, word) for name, some in value.items() for word in some]
    for number, known in enumerate((list(starts), list(DISTRIBUTIONS))):
        if unknown := [pair[number] for pair in found if pair[number] not in known]:
            raise ValueError(f"hard: {unknown[0]!r} does not stand here; {choose_from(str(unknown[0]), known)}")
    return tuple(dict.fromkeys(starts[name] + word for name, word in found))
