"""flash-attn's FlashAttention-2, whose causal mask is the operator's; it takes (batch, length, heads, dimension)."""

from softbench import implementation

from . import _attention


@implementation(operator=["attention", "attention_causal"], requires=["cuda>=sm_80", "flash-attn"])
def flash_attention(case):
    import torch

    _attention.need_plain(case, "flash-attn")
    if case.elements == 0:
        return lambda q, k, v: torch.empty(q.shape, dtype=q.dtype, device=q.device)
    from flash_attn import flash_attn_func

    causal = case.operator == "attention_causal"

    def launch(q, k, v):
        return flash_attn_func(*(x.transpose(1, 2) for x in (q, k, v)), causal=causal).transpose(1, 2)

    return launch
