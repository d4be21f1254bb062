"""quack's CuTe DSL kernels: asynchronous copies, one online exchange of a softmax, clusters for long rows."""

import math

from softbench import DTYPE_BYTES, LAYER_EPS, RMS_EPS, Unsupported, implementation, parse_layout

VECTOR_ELEMENTS = {"float16": 8, "bfloat16": 8, "float32": 4}


@implementation(
    operator=[
        "softmax",
        "softmax_backward",
        "rmsnorm",
        "layernorm",
        "add_rmsnorm",
        "add_layernorm",
        "cross_entropy",
        "cross_entropy_backward",
        "cross_entropy_both",
        "cross_entropy_in_place",
        "softmax_topk",
    ],
    requires=["cuda>=sm_90", "quack-kernels"],
    known_failures={
        "softmax-*float16-*x65544* softmax-*float16-*x70000* softmax-*float16-*x131080* "
        "softmax-*float16-*x151936* softmax-*float16-*x152064* softmax-*float16-*x202048* "
        "softmax-*float16-*x262152*": "NaN: a warp without columns has the maximum -inf, and no guard",
        "softmax-*-*x4096-prefix_inf_1 softmax-*float16-*x4096-prefix_inf_255 "
        "softmax-*float16-*x4096-prefix_inf_256 softmax-*x131072-prefix_inf_* softmax-*x4096-causal_inf "
        "softmax-*x4096-padding_inf softmax-*x4096-segments_inf": "NaN: a warp that sees only -inf has no guard",
        "softmax-bfloat16-*x4096-causal_min softmax-bfloat16-*-padding_min softmax-bfloat16-*-all_min "
        "softmax-float32-*x4096-causal_min softmax-float32-*-padding_min "
        "softmax-float32-*-all_min": "NaN: finfo.min * log2(e) overflows to -inf",
        "softmax-bfloat16-*-dtype_max softmax-float32-*-dtype_max": "NaN: the maximum * log2(e) overflows to inf",
        "softmax-float32-*-shifted_*": "x * log2(e) - max * log2(e) loses the digits that the offset takes",
        "softmax-float32-*x131072-growing": "x * log2(e) - max * log2(e) loses digits where the row maximum is large",
        "softmax-*-1x100000000-check": "its compilation does not end within minutes",
        "softmax-float32-*x1048576*": "does not launch: it asks for 263 KB of shared memory a block",
        "softmax_backward-float32-*x1048576*": "does not launch: it asks for 525 KB of shared memory a block",
        "add_*norm-float32-*x65536* add_*norm-float32-*x131072*": ("does not launch: it asks for 262 KB of shared memory a block"),
    },
)
def quack(case):
    if case.dtype not in VECTOR_ELEMENTS:
        raise Unsupported(f"quack takes {', '.join(VECTOR_ELEMENTS)}, not {case.dtype}")
    if case.out_dtype != case.dtype:
        raise Unsupported("quack's output has its input's dtype")
    if len(case.shape) != 2:
        raise Unsupported(f"quack takes 2-D input, not {len(case.shape)}-D")
    vector = VECTOR_ELEMENTS[case.dtype]
    if case.operator.endswith("norm"):
        vector = math.gcd(vector, case.columns)
        if vector * DTYPE_BYTES[case.dtype] < 4:
            raise Unsupported(f"quack's norms copy 4 bytes at least; of {case.columns} {case.dtype} columns 2 are left")
    elif case.columns % vector:
        raise Unsupported(f"quack asserts that its vector of {vector} {case.dtype} divides the {case.columns} columns")
    params = dict(case.params)
    if params.get("smoothing") or params.get("z"):
        raise Unsupported("quack's loss has no label smoothing and no z-loss")
    if case.operator == "softmax_topk":
        refuse_topk(case, **params)
    refusal = refused_layout(parse_layout(case.layout), vector)
    if refusal:
        raise Unsupported(f"{refusal}; the layout is {case.layout}")
    return LAUNCHES[case.operator](*([params] if params else []))


def refuse_topk(case, k, renormalised):
    if not renormalised:
        raise Unsupported("quack's softmax is that of the k largest")
    if case.dtype != "float32":
        raise Unsupported("quack's weights are of its input's dtype")
    if any(size & (size - 1) for size in (k, case.columns)):
        raise Unsupported(f"quack takes powers of two, not {k} of {case.columns}")


def refused_layout(layout, vector):
    """What the binding of quack's kernel refuses about a layout, "" where it takes it."""
    if layout.transposed or layout.column_step != 1:
        return "quack needs unit column stride"
    if layout.offset % vector or layout.row_pad % vector:
        return f"quack needs rows aligned to its vector of {vector} elements"
    return ""


def softmax():
    from quack.softmax import softmax_fwd

    return softmax_fwd


def softmax_backward():
    from quack.softmax import softmax_bwd

    return softmax_bwd


def rmsnorm():
    from quack.rmsnorm import rmsnorm_fwd

    return lambda x, weight: rmsnorm_fwd(x, weight, eps=RMS_EPS)[0]


def layernorm():
    """The operator below layernorm_fwd, which takes float32 weights only where its kernel takes any."""
    import torch
    from quack.rmsnorm import _rmsnorm_fwd

    def launch(x, weight, bias):
        y = torch.empty_like(x)
        _rmsnorm_fwd(x, weight, y, bias, None, None, None, None, LAYER_EPS, True)
        return y

    return launch


def add_rmsnorm():
    from quack.rmsnorm import rmsnorm_fwd

    return lambda x, residual, weight: rmsnorm_fwd(x, weight, residual=residual, eps=RMS_EPS, store_rstd=True)


def add_layernorm():
    """The same operator: no function above it adds a residual to a LayerNorm."""
    import torch
    from quack.rmsnorm import _rmsnorm_fwd

    def launch(x, residual, weight, bias):
        y, total = torch.empty_like(x), torch.empty_like(x)
        rstd, mean = (torch.empty(len(x), dtype=torch.float32, device=x.device) for _ in range(2))
        _rmsnorm_fwd(x, weight, y, bias, rstd, mean, residual, total, LAYER_EPS, True)
        return y, total, rstd, mean

    return launch


def cross_entropy(params, **words):
    from quack.cross_entropy import cross_entropy_fwd

    return lambda logits, target: cross_entropy_fwd(logits, target, ignore_index=params["ignore"], **words)


def cross_entropy_both(params):
    return cross_entropy(params, return_dx=True)


def cross_entropy_in_place(params):
    return cross_entropy(params, return_dx=True, inplace_backward=True)


def cross_entropy_backward(params):
    from quack.cross_entropy import cross_entropy_bwd

    ignore = params["ignore"]
    return lambda logits, target, lse, dloss: cross_entropy_bwd(logits, target, dloss, lse, ignore_index=ignore)


def softmax_topk(params):
    from quack.topk import topk_fwd

    return lambda scores: topk_fwd(scores, params["k"], softmax=True)


LAUNCHES = {
    "softmax": softmax,
    "softmax_backward": softmax_backward,
    "rmsnorm": rmsnorm,
    "layernorm": layernorm,
    "add_rmsnorm": add_rmsnorm,
    "add_layernorm": add_layernorm,
    "cross_entropy": cross_entropy,
    "cross_entropy_backward": cross_entropy_backward,
    "cross_entropy_both": cross_entropy_both,
    "cross_entropy_in_place": cross_entropy_in_place,
    "softmax_topk": softmax_topk,
}
