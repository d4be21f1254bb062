"""Cases of a size for a GPU, cut down for a CPU, which would take minutes for each. Pure."""

from dataclasses import replace

from softbench.model import Case

MOST_ELEMENTS = 2**18
"""Most elements of a case that is timed on a CPU: those of the largest case in the profile `cpu`."""
MOST_CHECKED = 2**21
"""Most elements of a case that is only checked there, where Triton's interpreter takes one program after another."""


def fit(case: Case) -> Case:
    """The case with fewer rows if it is too large, but at least one; the last dimension stays."""
    room = MOST_ELEMENTS if case.timed else MOST_CHECKED
    if case.elements <= room:
        return case
    shape = [case.columns]
    for size in reversed(case.shape[:-1]):
        room //= shape[0]
        shape.insert(0, max(1, min(size, room)))
    return replace(case, shape=tuple(shape))
