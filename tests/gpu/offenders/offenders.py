"""What can go wrong on a GPU and nowhere else, one mistake each."""

from softbench import implementation


@implementation(operator="softmax", requires=["cuda>=sm_80", "triton"])
def illegal_address(case):
    from ._kernels import write_far_away

    def launch(x):
        write_far_away[(64,)](x)
        return x.softmax(-1)

    return launch


@implementation(operator="softmax", requires=["cuda>=sm_80", "triton"])
def endless_kernel(case):
    import torch

    from ._kernels import spin_until

    flag = torch.zeros(1, dtype=torch.int32, device="cuda")

    def launch(x):
        spin_until[(1,)](flag)
        return x.softmax(-1)

    return launch


@implementation(operator="softmax", requires=["cuda>=sm_80"])
def takes_all_memory(case):
    import torch

    kept = torch.empty(1 << 40, dtype=torch.uint8, device="cuda")
    return lambda x: x.softmax(-1) + kept[0]


@implementation(operator="softmax", requires=["cuda>=sm_80"])
def leaks(case):
    import torch

    kept = []

    def launch(x):
        kept.append(torch.empty(12 << 30, dtype=torch.uint8, device="cuda"))
        return x.softmax(-1)

    return launch


@implementation(operator="softmax", requires=["cuda>=sm_80"])
def synchronises(case):
    return lambda x: x.softmax(-1) if float(x[0, 0]) < 1e9 else x


@implementation(operator="softmax", requires=["cuda>=sm_80"])
def wrong_when_captured(case):
    import torch

    return lambda x: torch.zeros_like(x) if torch.cuda.is_current_stream_capturing() else x.softmax(-1)


@implementation(operator="softmax", requires=["cuda>=sm_80", "triton"])
def breaks_while_timed(case):
    import torch

    from ._kernels import write_far_away

    write_far_away.warmup(torch.float16, grid=(1,))

    def launch(x):
        if torch.cuda.is_current_stream_capturing():
            write_far_away[(64,)](x)
        return x.softmax(-1)

    return launch


@implementation(operator="softmax", requires=["cuda>=sm_80"])
def never_joins_when_captured(case):
    import torch

    side = torch.cuda.Stream()

    def launch(x):
        current = torch.cuda.current_stream()
        side.wait_stream(current)
        with torch.cuda.stream(side):
            y = x.softmax(-1)
        if not torch.cuda.is_current_stream_capturing():
            current.wait_stream(side)
        return y

    return launch
