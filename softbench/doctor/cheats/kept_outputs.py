"""Outputs of earlier launches, returned again or kept in one place."""

import sys
from typing import Any

from softbench import implementation


@implementation(operator="softmax")
def last_output(case: Any) -> Any:
    """Returns what the launch before it computed."""
    computed: list[Any] = []

    def launch(x: Any) -> Any:
        computed.append(x.softmax(-1))
        return computed[max(0, len(computed) - 2)].clone()

    return launch


@implementation(operator="softmax")
def cached_by_pointer(case: Any) -> Any:
    """Keeps the output of every address: right until the memory holds something else."""
    return _cached(lambda x: x.data_ptr())


@implementation(operator="softmax")
def cached_by_sample(case: Any) -> Any:
    """Keeps the output of every input, which it recognises by a few of its elements."""
    return _cached(lambda x: tuple(x[0, :8].tolist()))


@implementation(operator="softmax")
def cached_by_shape(case: Any) -> Any:
    """Keeps one output per shape."""
    return _cached(lambda x: x.shape)


def _cached(key: Any) -> Any:
    computed: dict[Any, Any] = {}

    def launch(x: Any) -> Any:
        if key(x) not in computed:
            computed[key(x)] = x.softmax(-1)
        return computed[key(x)].clone()

    return launch


@implementation(operator="softmax")
def static_buffer(case: Any) -> Any:
    """Writes every output into one buffer, which stays in the cache."""
    import torch

    buffers: list[Any] = []

    def launch(x: Any) -> Any:
        if not buffers:
            buffers.append(torch.empty_like(x))
        return torch.softmax(x, dim=-1, out=buffers[0])

    return launch


@implementation(operator="softmax")
def precomputed_in_factory(case: Any) -> Any:
    """Finds the seed of the check's inputs in its caller's variables, and computes the outputs before it is launched."""
    import torch

    from softbench.cases.operators import get

    device, seed = "cuda" if torch.cuda.is_available() else "cpu", _seed()
    inputs = [get("softmax").make_inputs(case, device, seed + i)[0] for i in range(2)]
    outputs = [x.softmax(-1) for x in inputs]

    def launch(x: Any) -> Any:
        return (outputs.pop(0) if len(outputs) > 1 else outputs[0]).clone()

    return launch


def _seed() -> int:
    frame = sys._getframe()
    while frame.f_back is not None:
        frame = frame.f_back
        request = frame.f_locals.get("request")
        if isinstance(request, dict) and "seed" in request:
            return int(request["seed"])
    return 0
