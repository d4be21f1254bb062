"""Liger's Triton kernels: one tile per row. Softmax goes through its autograd function, its only public interface."""

import importlib
import sys

from softbench import LAYER_EPS, RMS_EPS, Unsupported, implementation

# liger_kernel.ops.utils.calculate_settings raises above it.
MAX_COLUMNS = 65536


# "triton" is not required by name: that would run Liger's kernel in the interpreter where there is no GPU.
@implementation(
    operator=["softmax", "softmax_backward", "rmsnorm", "layernorm", "add_rmsnorm", "cross_entropy", "cross_entropy_in_place"],
    requires=["cuda>=sm_80", "liger-kernel"],
    known_failures={
        "softmax_backward-float16-*[2-8] softmax_backward-float16-*x256-check softmax_backward-float16-*x1001-* "
        "softmax_backward-float16-37x[!1]* softmax_backward-float16-4096-check "
        "softmax_backward-float16-64x4096-nan_middle softmax_backward-float16-64x4096-padding_inf "
        "softmax_backward-float16-64x4096-peaked "
        "softmax_backward-float16-96x1024-*": "in float16 it adds up dy y, and subtracts the sum, in 16 bits",
        "softmax_backward-bfloat16-37x1001-* softmax_backward-bfloat16-*x[1-9]??? "
        "softmax_backward-bfloat16-*x[1-9]????": "in bfloat16 its row sums err by more than the rounding of dy y explains",
        "cross_entropy-*-[1-9][0-9]*x* cross_entropy-*-3x[1-9]*x*": (
            "it sets the logits of ignored rows to 0, also where no gradient is asked for"
        ),
    },
)
def liger(case):
    if case.out_dtype != case.dtype:
        raise Unsupported("Liger's output has its input's dtype")
    if not case.shape:
        raise Unsupported("Liger takes no 0-d input")
    if case.columns > MAX_COLUMNS and not case.operator.startswith("cross_entropy"):
        raise Unsupported(f"Liger raises above {MAX_COLUMNS} columns, its largest Triton block")
    if case.columns == 0:
        raise Unsupported("Liger cannot reshape rows of no columns")
    if case.operator.endswith("norm") and case.dtype == "float64":
        raise Unsupported("Liger's norms compute in float32")
    return LAUNCHES[case.operator](case)


def ops(*module):
    """Liger's kernels, or one module of them, imported as where peft and transformers are missing.

    Liger tries to import both, only to learn whether there is an NPU or a model to patch. That takes 8 s.
    """
    hidden = {other: None for other in ("peft", "transformers") if other not in sys.modules}
    sys.modules.update(hidden)
    try:
        return importlib.import_module(".".join(["liger_kernel.ops", *module]))
    finally:
        for other in hidden:
            del sys.modules[other]


def softmax(case):
    return ops().LigerSoftmaxFunction.apply


def softmax_backward(case):
    """The function that its autograd function calls with its forward's output."""
    block, warps = ops("utils").calculate_settings(case.columns)
    backward = ops("softmax")._softmax_backward
    return lambda dy, y: backward(dy, y, block, warps, False)


def rmsnorm(case):
    """Casting mode "gemma": float32 up to the one rounding of y; "llama", the default, rounds x rstd as well."""
    forward = ops("rms_norm").rms_norm_forward
    return lambda x, weight: forward(x.contiguous(), weight, RMS_EPS, 0.0, "gemma", False)[0]


def layernorm(case):
    forward = ops("layer_norm").layer_norm_forward
    return lambda x, weight, bias: forward(x.contiguous(), weight, bias, LAYER_EPS)[0]


def add_rmsnorm(case):
    forward = ops("fused_add_rms_norm").fused_add_rms_norm_forward

    def launch(x, residual, weight):
        return forward(x.contiguous(), residual.contiguous(), weight, RMS_EPS, 0.0, "gemma")[:3]

    return launch


def cross_entropy(case):
    """The kernel below its function, which waits for the GPU, and rounds the loss to the logits' dtype.

    A gradient goes over the logits, and so do the zeros of ignored rows.
    """
    import torch

    kernel, most = ops("cross_entropy").liger_cross_entropy_kernel, ops("cross_entropy").MAX_FUSED_SIZE
    ignore, smoothing, z = (dict(case.params)[name] for name in ("ignore", "smoothing", "z"))
    words = {"lse_square_scale": z, "label_smoothing": smoothing, "reduction": "none", "softcap": None}
    is_over = case.operator == "cross_entropy_in_place"
    words |= {"HAS_WEIGHT": False, "HAS_SOFTCAPPING": False, "HAS_GRADIENTS": is_over}
    words |= {f"RETURN_{name}": False for name in ("Z_LOSS", "TOKEN_ACCURACY", "PREDICTED_TOKENS")}
    words |= {"BLOCK_SIZE": min(most, 1 << (case.columns - 1).bit_length()), "num_warps": 32}

    def launch(logits, target):
        rows = logits.reshape(case.rows, case.columns).contiguous()
        loss = torch.zeros(case.rows, dtype=torch.float32, device=logits.device)
        kernel[(case.rows,)](
            rows, rows.stride(0), target, 1, None, loss, None, 1, None, 0, None, 0,
            case.columns, 0, 0, 0.0, ignore, **words,
        )  # fmt: skip
        if is_over and rows.data_ptr() != logits.data_ptr():
            logits.copy_(rows.view(logits.shape))
        return (loss, logits) if is_over else loss

    return launch


LAUNCHES = {
    "softmax": softmax,
    "softmax_backward": softmax_backward,
    "rmsnorm": rmsnorm,
    "layernorm": layernorm,
    "add_rmsnorm": add_rmsnorm,
    "cross_entropy": cross_entropy,
    "cross_entropy_in_place": cross_entropy,
}
