"""torch.compile of torch.softmax for the case's exact shape, without CUDA graphs."""

from __future__ import annotations

from softbench import implementation


@implementation(operator="softmax", requires=["torch"])
def torch_compile(case):
    import torch

    # Graphs of an earlier case would count as recompilations of this one.
    torch._dynamo.reset()
    # One compilation here, and one at the checked launch for inputs of another layout. A third one would fall into
    # the timing: with fullgraph it is an error rather than a slow sample.
    torch._dynamo.config.recompile_limit = 2
    dtype = getattr(torch, case.dtype)
    out_dtype = getattr(torch, case.out_dtype)
    options = {"triton.cudagraphs": False}

    def softmax(x):
        return torch.softmax(x, dim=-1, dtype=None if out_dtype == dtype else out_dtype)

    launch = torch.compile(softmax, dynamic=False, fullgraph=True, options=options)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    launch(torch.zeros(case.shape, dtype=dtype, device=device))
    return launch
