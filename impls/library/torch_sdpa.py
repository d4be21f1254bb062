"""torch's scaled_dot_product_attention, one variant per backend; `torch_eager` has the backend that torch chooses."""

from softbench import Unsupported, implementation

from . import _attention


@implementation(
    operator=["attention", "attention_causal"],
    requires=["cuda>=sm_80", "torch"],
    params={"backend": ["math", "efficient", "flash", "cudnn"]},
)
def torch_sdpa(case, backend):
    """math: the formula in float32; efficient: xFormers' kernels; flash: FlashAttention-2; cudnn: cuDNN's."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    words = _attention.masking(case, _attention.device())
    if backend == "math":
        _attention.need_room(case, 4)
    else:
        _attention.need_plain(case, f"torch's {backend} attention")
    if "attn_mask" in words and backend in ("flash", "cudnn"):
        raise Unsupported(f"torch's {backend} attention is asked without a mask of one's own")
    if backend == "cudnn" and _attention.keys_of(case) == 1:
        raise Unsupported("torch has no cuDNN attention over a single key (2.11: No available kernel)")
    names = {
        "math": SDPBackend.MATH,
        "efficient": SDPBackend.EFFICIENT_ATTENTION,
        "flash": SDPBackend.FLASH_ATTENTION,
        "cudnn": SDPBackend.CUDNN_ATTENTION,
    }
    if case.elements == 0:
        return lambda q, k, v: torch.empty(q.shape, dtype=q.dtype, device=q.device)

    def launch(q, k, v):
        with sdpa_kernel(names[backend]):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, **words)

    return launch
