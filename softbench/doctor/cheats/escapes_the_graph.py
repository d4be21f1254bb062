"""Does its work beside the graph while one is captured: a replay has nothing to do, and the output is there already."""

from __future__ import annotations

from typing import Any

from softbench import implementation


@implementation(operator="softmax", requires=["torch", "cuda>=sm_70"])
def escapes_the_graph(case: Any) -> Any:
    import torch

    stream = torch.cuda.Stream()

    def launch(x: Any) -> Any:
        y = torch.empty_like(x)
        if not torch.cuda.is_current_stream_capturing():
            return torch.softmax(x, dim=-1, out=y)
        with torch.cuda.stream(stream):
            return torch.softmax(x, dim=-1, out=y)

    return launch
