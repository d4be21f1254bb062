"""Right softmaxes that do what could be mistaken for a cheat."""

from softbench import implementation


@implementation(operator="softmax")
def honest_eager(case):
    import torch

    return lambda x: torch.softmax(x, dim=-1)


@implementation(operator="softmax")
def honest_in_place(case):
    """In its own memory, and in another order of the dimensions."""
    import torch

    def launch(x):
        y = torch.empty(x.shape[::-1], dtype=torch.float32, device=x.device).t().copy_(x)
        y.sub_(y.amax(-1, keepdim=True)).exp_()
        return y.div_(y.sum(-1, keepdim=True)).to(x.dtype)

    return launch


@implementation(operator="softmax")
def honest_workspace(case):
    """Keeps a workspace by shape, and another by the address of its input."""
    import torch

    powers, sums = {}, {}

    def launch(x):
        power = powers.setdefault(x.shape, torch.empty_like(x, dtype=torch.float32))
        total = sums.setdefault(x.data_ptr(), x.new_empty(x.shape[0], 1, dtype=torch.float32))
        torch.exp(x.float() - x.float().amax(-1, keepdim=True), out=power)
        torch.sum(power, -1, keepdim=True, out=total)
        return (power / total).to(x.dtype)

    return launch


@implementation(operator="softmax")
def honest_random_order(case):
    """Adds up in another order at every call, as atomics do: no two outputs are the same bits."""
    import torch

    def launch(x):
        power = (x.float() - x.float().amax(-1, keepdim=True)).exp()
        parts = power[:, torch.randperm(x.shape[1], device=x.device)].split(7, dim=1)
        total = sum(part.sum(-1, keepdim=True) for part in parts)
        return (power / total).to(x.dtype)

    return launch


@implementation(operator="softmax")
def honest_tuner(case):
    """Tries two ways in its first calls, by the host's timer and torch's synchronisation, and goes on with the faster."""
    import time

    import torch

    ways, times = (lambda x: torch.softmax(x, dim=-1), lambda x: torch.log_softmax(x.double(), dim=-1).exp()), []

    def launch(x):
        if len(times) == len(ways):
            return ways[times.index(min(times))](x).to(x.dtype)
        began = time.perf_counter_ns()
        y = ways[len(times)](x).to(x.dtype)
        if x.is_cuda:
            torch.cuda.synchronize()
        times.append(time.perf_counter_ns() - began)
        return y

    return launch


@implementation(operator="softmax")
def honest_parameter(case):
    import torch

    return lambda x: torch.nn.Parameter(torch.softmax(x, dim=-1), requires_grad=False)


@implementation(operator="softmax")
def honest_threads(case):
    """Half of the rows on a thread, which it waits for; a thread has a current stream of its own."""
    import threading

    import torch

    def work(x, y, stream):
        with torch.cuda.stream(stream):
            y.copy_(torch.softmax(x, dim=-1))

    def launch(x):
        y, half = torch.empty_like(x), x.shape[0] // 2
        stream = torch.cuda.current_stream(x.device) if x.is_cuda else None
        thread = threading.Thread(target=work, args=(x[half:], y[half:], stream))
        thread.start()
        work(x[:half], y[:half], stream)
        thread.join()
        return y

    return launch
