"""The same kernel with and without a memo of its rows in device memory, which outlives a replay."""

from softbench import implementation


def launcher(case, memo):
    import torch
    import triton

    from ._kernels import softmax_with_memo

    kept = torch.zeros(1024 if memo else 1, case.rows, dtype=torch.int32, device="cuda")
    block, calls = triton.next_power_of_2(case.columns), 0

    def launch(x):
        nonlocal calls
        y = torch.empty_like(x)
        mine = kept[calls % len(kept)]
        calls += 1
        softmax_with_memo[(case.rows,)](x, y, mine, case.columns, MEMO=memo, BLOCK=block, num_warps=8)
        return y

    return launch


@implementation(operator="softmax", requires=["cuda>=sm_80", "triton"])
def writes_what_changed(case):
    return launcher(case, True)


@implementation(operator="softmax", requires=["cuda>=sm_80", "triton"])
def writes_all(case):
    return launcher(case, False)
