"""An input that is made simple where nobody compares it with what it was."""

import itertools
from typing import Any

from softbench import implementation

_CALLS_OF_THE_CHECK = 4


# Triton's interpreter, which would run it without a GPU, is asked for by requires=["triton"].
@implementation(operator="softmax", requires=["cuda>=sm_80"])
def simplifies_its_input(case: Any) -> Any:
    """Is right in its first calls; in the later ones a parameter tells its kernel to zero the input, and to answer for zeros."""
    import torch
    import triton

    from ._kernels import HONEST, SIMPLER, softmax_or_simpler

    block, calls = triton.next_power_of_2(case.columns), itertools.count()

    def launch(x: Any) -> Any:
        y = torch.empty_like(x)
        kind = HONEST.value if next(calls) < _CALLS_OF_THE_CHECK else SIMPLER
        softmax_or_simpler[(case.rows,)](x, y, case.columns, kind, BLOCK=block, num_warps=8)
        return y

    return launch
