"""A project with operators that read or write integers and bools."""

from support import own_operators
from support.readers import FILES

MASKED = (
    own_operators.HEAD
    + """@operator(
    reads={"x": "case", "mask": {"shape": "case", "dtype": "bool", "share": 0.7}},
    writes={"y": "case", "is_empty": {"shape": "rows", "dtype": "bool"}},
    params={"scale": (0.01, 2.0)},
)
def masked(x, mask, *, scale):
    y = (x * scale).masked_fill(~mask, float("-inf")).softmax(1)
    return y.masked_fill(~mask, 0.0), ~mask.any(1, keepdim=True)


@masked.slack
def slack(unit, y, is_empty, x, mask, *, scale):
    return unit * y * (8 + 2 * scale * x.abs().amax(1, keepdim=True))


@masked.baseline
def torch_eager(x, mask, *, scale):
    wide = scale * (x.double() if x.dtype is torch.float64 else x.float())
    y = wide.masked_fill(~mask, float("-inf")).softmax(-1)
    return y.masked_fill(~mask, 0.0), ~mask.reshape(-1, mask.shape[-1]).any(1)
"""
)
SHAPES = """
profiles:
  timed:
    description: all, timed
    groups:
      - {operator: token_loss, dtype: [float32, bfloat16], shapes: [[32, 256]]}
      - {operator: router, dtype: [float32, bfloat16], shapes: [[32, 256]], params: {k: [2, 8]}}
      - {operator: masked, dtype: [float32, bfloat16], shapes: [[32, 256]], params: {scale: 0.125}}
  hard:
    description: all, checked
    timed: false
    groups:
      - {operator: token_loss, dtype: [float16, float64], shapes: [[4, 5, 60]], layout: [padded-1, transposed]}
      - {operator: router, dtype: [float16, float64], shapes: [[4, 5, 60]], layout: [padded-1, transposed], params: {k: 3}}
      - {operator: masked, dtype: bfloat16, out_dtype: float32, shapes: [[6, 60]], params: {scale: 1}}
      - {operator: [token_loss, router, masked], drawn: 4}
"""
KERNELS = """
import torch
from softbench import implementation

def narrowed(y, x):
    return y.to(torch.float64 if x.dtype is torch.float64 else torch.float32)

def renormed(scores, at):
    return narrowed(scores.double().reshape(-1, scores.shape[-1]).gather(1, at).softmax(1), scores)

@implementation(operator="router")
def last_of_ties(case):
    def launch(scores):
        flat = scores.double().reshape(-1, scores.shape[-1])
        at = flat.shape[1] - 1 - flat.flip(1).sort(dim=1, descending=True, stable=True).indices[:, :dict(case.params)["k"]]
        return renormed(scores, at), at.int()
    return launch

@implementation(operator="router")
def twice_the_first(case):
    def launch(scores):
        at = scores.double().reshape(-1, scores.shape[-1]).topk(dict(case.params)["k"], dim=1).indices
        right = renormed(scores, at)
        at[:, -1] = at[:, 0]
        return right, at.int()
    return launch

@implementation(operator="token_loss")
def next_target(case):
    def launch(logits, target):
        rows = logits.double().reshape(-1, logits.shape[-1])
        wrong = (target + 1) % rows.shape[1]
        return narrowed(rows.logsumexp(1) - rows.gather(1, wrong[:, None])[:, 0], logits)
    return launch

@implementation(operator="masked")
def mask_of_the_first_row(case):
    def launch(x, mask):
        y = (x.double() * dict(case.params)["scale"]).masked_fill(~mask, float("-inf")).softmax(-1).masked_fill(~mask, 0.0)
        flat = mask.reshape(-1, mask.shape[-1])
        return y.to(getattr(torch, case.out_dtype)), torch.ones(len(flat), dtype=torch.bool)
    return launch
"""
OPERATORS = {name: FILES[f"operators/{name}.py"] for name in ("token_loss", "router")} | {"masked": MASKED}


def project(folder):
    return own_operators.project(folder, OPERATORS, KERNELS, SHAPES)
