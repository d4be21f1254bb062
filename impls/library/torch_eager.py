"""PyTorch's own operators, one after the other, on the device of the inputs."""

from softbench import LAYER_EPS, RMS_EPS, Unsupported, implementation, parse_layout

from . import _attention


@implementation(
    operator=[
        "softmax",
        "softmax_backward",
        "rmsnorm",
        "layernorm",
        "add_rmsnorm",
        "add_layernorm",
        "attention",
        "attention_causal",
    ],
    requires=["torch"],
)
def torch_eager(case):
    if case.operator == "softmax":
        return softmax(case)
    if case.out_dtype != case.dtype:
        raise Unsupported("torch's output has its input's dtype")
    if case.operator != "softmax_backward" and not case.shape:
        raise Unsupported("torch's norms take no 0-d input")
    return {
        "softmax_backward": softmax_backward,
        "rmsnorm": rmsnorm,
        "layernorm": layernorm,
        "add_rmsnorm": add_rmsnorm,
        "add_layernorm": add_layernorm,
        "attention": attention,
        "attention_causal": attention,
    }[case.operator](case)


def softmax(case):
    """Of a transposed x along the dimension before the last, as it lies in memory: along the last, torch would copy it."""
    import torch

    out_dtype = None if case.out_dtype == case.dtype else getattr(torch, case.out_dtype)
    if parse_layout(case.layout).transposed:
        return lambda x: torch.softmax(x.mT, dim=-2, dtype=out_dtype).mT
    return lambda x: torch.softmax(x, dim=-1, dtype=out_dtype)


def attention(case):
    """The backend that torch chooses."""
    import torch

    attend, words = torch.nn.functional.scaled_dot_product_attention, _attention.masking(case, _attention.device())
    if case.elements == 0:
        return lambda q, k, v: torch.empty(q.shape, dtype=q.dtype, device=q.device)
    return lambda q, k, v: attend(q, k, v, **words)


def softmax_backward(case):
    """The operator that autograd calls, without autograd's own work."""
    import torch

    gradient, dtype = torch.ops.aten._softmax_backward_data, getattr(torch, case.dtype)
    return lambda dy, y: gradient(dy, y, -1, dtype)


def rmsnorm(case):
    import torch

    return lambda x, weight: torch.nn.functional.rms_norm(x, (case.columns,), weight, RMS_EPS)


def layernorm(case):
    import torch

    return lambda x, weight, bias: torch.nn.functional.layer_norm(x, (case.columns,), weight, bias, LAYER_EPS)


def add_rmsnorm(case):
    import torch

    def launch(x, residual, weight):
        total = x + residual
        y, rstd = torch.ops.aten._fused_rms_norm(total, (case.columns,), weight, RMS_EPS)
        return y, total, rstd.view(-1)

    return launch


def add_layernorm(case):
    import torch

    # On a CPU the fused operator returns 16-bit statistics for 16-bit inputs.
    widened = not torch.cuda.is_available() and case.dtype in ("float16", "bfloat16")

    def launch(x, residual, weight, bias):
        total = x + residual
        inputs = [t.float() for t in (total, weight, bias)] if widened else [total, weight, bias]
        y, mean, rstd = torch.native_layer_norm(inputs[0], (case.columns,), *inputs[1:], LAYER_EPS)
        return y.to(total.dtype), total, rstd.view(-1), mean.view(-1)

    return launch
