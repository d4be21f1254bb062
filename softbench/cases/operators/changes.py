"""Changes to the values of inputs that an implementation can only notice by reading them."""

import random

from softbench.model import Tensor

STEP = 4.0
"""By how much one element is moved: e**4 in a softmax, four standard deviations of a normal input."""


def unseen(inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """The same memory as other tensors, whose changes do not increase the version counters of `inputs`.

    Writes through a pointer do not increase them either, so no implementation may rely on them.
    """
    return tuple(x.data for x in inputs)


def nudge(x: Tensor, rng: random.Random) -> tuple[int, ...]:
    """Move one random element of a tensor that is not empty by `STEP`, towards 0 and past it; the element's index.

    See `unseen`; does not wait for the device. Normally distributed values stay small, however often they are moved.
    """
    import torch

    index = tuple(rng.randrange(size) for size in x.shape)
    element = x.data[index]
    element.copy_(torch.where(element > 0, element - STEP, element + STEP))
    return index
