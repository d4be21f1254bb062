"""Cases of a size for a GPU, cut down for a CPU, which would take minutes for each. Pure."""

from dataclasses import replace

from softbench.model import Case

MOST_ELEMENTS = 2**18
"""Most elements of a case that is timed on a CPU: those of the largest case in the profile `cpu`."""


def fit(case: Case) -> Case:
    """The case with fewer rows if it is too large, but at least one; the last dimension stays. Untimed cases are not cut."""
    if not case.timed or case.elements <= MOST_ELEMENTS:
        return case
    shape, room = list(case.shape), MOST_ELEMENTS
    for place in reversed(range(len(shape))):
        if place < len(shape) - 1:
            shape[place] = max(1, min(shape[place], room))
        room //= shape[place]
    return replace(case, shape=tuple(shape))
