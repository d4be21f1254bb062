"""A memo of rows in device memory, which outlives a replay; and the same kernel without one, whose time is the honest one."""

import itertools
from typing import Any

from softbench import implementation


# Triton's interpreter, which would run them without a GPU, is asked for by requires=["triton"].
@implementation(operator="softmax", requires=["cuda>=sm_80"])
def writes_what_changed(case: Any) -> Any:
    """Keeps a hash of every row in device memory, and writes a row only if its hash has changed since the last replay."""
    return _launch(case, memo=True)


@implementation(operator="softmax", requires=["cuda>=sm_80"])
def writes_all(case: Any) -> Any:
    """Writes every row: the honest kernel beside writes_what_changed."""
    return _launch(case, memo=False)


def _launch(case: Any, memo: bool) -> Any:
    import torch
    import triton

    from ._kernels import softmax_with_memo

    kept = torch.zeros(1024 if memo else 1, case.rows, dtype=torch.int32, device="cuda")
    block, calls = triton.next_power_of_2(case.columns), itertools.count()

    def launch(x: Any) -> Any:
        y, mine = torch.empty_like(x), kept[next(calls) % len(kept)]
        softmax_with_memo[(case.rows,)](x, y, mine, case.columns, MEMO=memo, BLOCK=block, num_warps=8)
        return y

    return launch
