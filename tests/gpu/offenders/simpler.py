"""A kernel that is told by a parameter that it is timed, and then makes its input simple."""

from softbench import implementation

CALLS_OF_THE_CHECK = 4


@implementation(operator="softmax", requires=["cuda>=sm_80", "triton"])
def simplifies_its_input(case):
    import torch
    import triton

    from ._kernels import softmax_or_simpler

    block, calls = triton.next_power_of_2(case.columns), 0

    def launch(x):
        nonlocal calls
        y = torch.empty_like(x)
        is_timed = 2 * (calls >= CALLS_OF_THE_CHECK)  # 1 would be a constant of the kernel
        calls += 1
        softmax_or_simpler[(case.rows,)](x, y, case.columns, is_timed, BLOCK=block, num_warps=8)
        return y

    return launch
