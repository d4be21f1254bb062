"""torch.compile of an operator's own formula for the case's exact shape, without CUDA graphs."""

from softbench import LAYER_EPS, RMS_EPS, Unsupported, implementation, keys_of, scale_of

from . import _attention


@implementation(
    operator=[
        "softmax",
        "softmax_backward",
        "log_softmax",
        "log_softmax_backward",
        "cross_entropy",
        "cross_entropy_backward",
        "cross_entropy_both",
        "cross_entropy_in_place",
        "masked_softmax",
        "biased_softmax",
        "causal_softmax",
        "ragged_softmax",
        "softmax_topk",
        "rmsnorm",
        "layernorm",
        "add_rmsnorm",
        "add_layernorm",
        "attention",
        "attention_causal",
    ],
    requires=["torch"],
)
def torch_compile(case):
    import torch

    formula, inputs = FORMULAS[case.operator](case)
    # Graphs of an earlier case would count as recompilations of this one.
    torch._dynamo.reset()
    # One compilation here, and one at the checked launch for inputs of another layout. A third one would fall into
    # the timing: with fullgraph it is an error rather than a slow sample.
    torch._dynamo.config.recompile_limit = 2
    # Where a matrix product comes last and its shape is padded, the output is a part of what was computed, and not dense.
    options = {"triton.cudagraphs": False, "shape_padding": False}
    launch = torch.compile(formula, dynamic=False, fullgraph=True, options=options)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    for_case = ((one if one and isinstance(one[-1], str) else (one, case.dtype)) for one in inputs)
    launch(*(torch.zeros(shape, dtype=getattr(torch, dtype), device=device) for shape, dtype in for_case))
    return launch


def softmax(case):
    import torch

    out_dtype = None if case.out_dtype == case.dtype else getattr(torch, case.out_dtype)
    return lambda x: torch.softmax(x, dim=-1, dtype=out_dtype), [case.shape]


def softmax_backward(case):
    import torch

    same_dtype(case)
    dtype = getattr(torch, case.dtype)
    return lambda dy, y: torch.ops.aten._softmax_backward_data(dy, y, -1, dtype), [case.shape] * 2


def log_softmax(case):
    import torch

    same_dtype(case)
    if case.operator == "log_softmax":
        return lambda x: torch.log_softmax(x, dim=-1), [case.shape]
    dtype = getattr(torch, case.dtype)
    return lambda dy, y: torch.ops.aten._log_softmax_backward_data(dy, y, -1, dtype), [case.shape] * 2


def cross_entropy(case):
    """The loss, its gradient, or both, by the formula."""
    import torch

    same_dtype(case)
    ignore, smoothing, z = (dict(case.params)[name] for name in ("ignore", "smoothing", "z"))
    dtype, working = dtypes(case)

    def loss(x, target):
        rows = x.reshape(case.rows, -1).to(working)
        lse = rows.logsumexp(1)
        found = (1 - smoothing) * (lse - rows.gather(1, target.clamp(min=0)[:, None])[:, 0])
        found = found + smoothing * lse - (smoothing / case.columns * rows).sum(1) if smoothing else found
        return torch.where(target == ignore, 0.0, found + z * lse.square() if z else found), lse

    def gradient(x, target, lse, dloss):
        rows, seen = x.reshape(case.rows, -1).to(working), (target != ignore)[:, None]
        right = torch.arange(case.columns, device=x.device) == target[:, None]
        dx = (rows - lse[:, None]).exp() * (1 + 2 * z * lse)[:, None] - smoothing / case.columns
        dx = (dx - torch.where(right, 1 - smoothing, 0.0)) * dloss[:, None]
        return torch.where(seen, dx, 0.0).to(dtype).view(x.shape)

    def both(x, target):
        found, lse = loss(x, target)
        return found, gradient(x, target, lse, torch.ones_like(lse))

    def in_place(x, target):
        found, dx = both(x, target)
        return found, x.copy_(dx)

    row = (case.rows,)
    inputs = [case.shape, (row, "int64")]
    if case.operator == "cross_entropy_backward":
        return gradient, [*inputs, (row, "float32"), (row, "float32")]
    wide = {"cross_entropy_both": both, "cross_entropy_in_place": in_place}
    return wide.get(case.operator, lambda *given: loss(*given)[0]), inputs


def masked_softmax(case):
    import torch

    same_dtype(case)
    (dtype, working), params = dtypes(case), dict(case.params)
    scale, window, alibi = (params.get(name, 0) for name in ("scale", "window", "alibi"))

    def masks(x, mask):
        return torch.softmax((scale * x.to(working)).masked_fill(~mask, -torch.inf), -1).masked_fill(~mask, 0.0).to(dtype)

    def adds(x, mask):
        y = torch.softmax(scale * x.to(working) + mask, -1)
        return y.masked_fill(mask == -torch.inf, 0.0).to(dtype)

    def near(x, last, slope):
        distance = last[:, None] - torch.arange(case.columns, device=x.device)
        value = scale * x.to(working).view(distance.shape) - alibi * slope[:, None] * distance
        value = value.masked_fill((distance < 0) | (distance >= window), -torch.inf)
        return torch.softmax(value, -1).masked_fill(value == -torch.inf, 0.0).to(dtype).view(x.shape)

    if case.operator == "causal_softmax":
        return near, [case.shape, ((case.rows,), "int64"), ((case.rows,), "float32")]
    if case.operator == "biased_softmax":
        return adds, [case.shape] * 2
    return masks, [case.shape, (case.shape, "bool")]


def ragged_softmax(case):
    """By scatters, as eager."""
    import torch

    (dtype, working), segments = dtypes(case), dict(case.params)["segments"]

    def formula(x, ends):
        rows = x.reshape(case.rows, -1).to(working)
        at = torch.arange(case.columns, device=x.device).expand(rows.shape).contiguous()
        segment = torch.searchsorted(ends, at, right=True).clamp(max=segments - 1)
        none = rows.new_full((case.rows, segments), -torch.inf)
        powers = (rows - none.scatter_reduce(1, segment, rows, "amax").gather(1, segment)).exp()
        total = torch.zeros_like(none).scatter_add(1, segment, powers)
        return (powers / total.gather(1, segment)).to(dtype).view(x.shape)

    return formula, [case.shape, ((case.rows, segments), "int64")]


def softmax_topk(case):
    k, renormalised = (dict(case.params)[name] for name in ("k", "renormalised"))

    def formula(scores):
        rows = scores.reshape(case.rows, -1).to(dtypes(case)[1])
        top, expert = rows.topk(k, dim=1)
        return top.softmax(1) if renormalised else rows.softmax(1).gather(1, expert), expert.int()

    return formula, [case.shape]


def dtypes(case):
    """The case's, and that of the arithmetic."""
    import torch

    own = getattr(torch, case.dtype)
    return own, torch.promote_types(own, torch.float32)


def norm(case):
    """The four norms, in float32 (or float64) up to the one rounding of each output: Inductor makes one kernel of it."""
    import torch

    same_dtype(case)
    centred, adds = case.operator.endswith("layernorm"), case.operator.startswith("add_")
    dtype = getattr(torch, case.dtype)
    working = torch.promote_types(dtype, torch.float32)
    eps = LAYER_EPS if centred else RMS_EPS
    first = int(adds)  # torch 2.11's dynamo indexes a tuple with an int only, not with a bool

    def formula(x, *rest):
        total = x.to(working) + rest[0].to(working) if adds else x.to(working)
        weight, bias = rest[first].to(working), rest[-1].to(working)
        mean = total.mean(-1, keepdim=True) if centred else None
        spread = total - mean if centred else total
        rstd = torch.rsqrt(spread.square().mean(-1, keepdim=True) + eps)
        y = spread * rstd * weight
        y = (y + bias if centred else y).to(dtype)
        statistics = [s.reshape(-1) for s in (rstd, mean) if s is not None]
        return (y, total.to(dtype), *statistics) if adds else y

    return formula, [case.shape] * (1 + adds) + [(case.columns,)] * (1 + centred)


def attention(case):
    """The plain formula, with all scores in the inputs' dtype; Inductor may put torch's own attention in its place."""
    import torch

    _attention.need_room(case, 2)
    batch, heads, queries, dimension = case.shape
    keys, scale = keys_of(case), scale_of(case)
    seen = None
    if case.operator == "attention_causal":
        seen = _attention.visible(queries, keys, _attention.device())

    def formula(q, k, v):
        scores = torch.matmul(q, k.transpose(-2, -1)) * scale
        if seen is not None:
            scores = scores.masked_fill(~seen, float("-inf"))
        p = torch.softmax(scores, dim=-1)
        if seen is not None and keys < queries:  # rows that see no key are 0
            p = p.masked_fill(~seen[:, :1], 0.0)
        return torch.matmul(p, v)

    return formula, [case.shape, *[(batch, heads, keys, dimension)] * 2]


def same_dtype(case):
    if case.out_dtype != case.dtype:
        raise Unsupported("written for an output of the inputs' dtype")


FORMULAS = {
    "softmax": softmax,
    "softmax_backward": softmax_backward,
    "log_softmax": log_softmax,
    "log_softmax_backward": log_softmax,
    "cross_entropy": cross_entropy,
    "cross_entropy_backward": cross_entropy,
    "cross_entropy_both": cross_entropy,
    "cross_entropy_in_place": cross_entropy,
    "masked_softmax": masked_softmax,
    "biased_softmax": masked_softmax,
    "causal_softmax": masked_softmax,
    "ragged_softmax": ragged_softmax,
    "softmax_topk": softmax_topk,
    "rmsnorm": norm,
    "layernorm": norm,
    "add_rmsnorm": norm,
    "add_layernorm": norm,
    "attention": attention,
    "attention_causal": attention,
}
