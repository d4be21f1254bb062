"""What the libraries' attention has in common: torch's form of the causal mask, and the cases that are not for them."""

from softbench import Layout, Unsupported, keys_of, parse_layout

MOST_SCORE_BYTES = 2**34


def masking(case, device):
    """Keyword arguments of torch's scaled_dot_product_attention: its own causal mask is aligned to the top left."""
    queries, keys = case.shape[-2], keys_of(case)
    if case.operator == "attention" or queries == 1:
        return {}
    if queries == keys:
        return {"is_causal": True}
    return {"attn_mask": visible(queries, keys, device)}


def visible(queries, keys, device):
    """(queries, keys) bool: the keys that a causal query sees, aligned to the bottom right."""
    import torch

    return torch.ones(queries, keys, dtype=torch.bool, device=device).tril(keys - queries)


def device():
    """The device of a launch's inputs."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def need_plain(case, who):
    """Raises Unsupported for inputs that are views."""
    if Layout(keys=parse_layout(case.layout).keys) != parse_layout(case.layout):
        raise Unsupported(f"{who} is asked with contiguous inputs only; the layout is {case.layout}")


def need_room(case, item_bytes):
    """Raises Unsupported where a matrix of all scores is larger than 16 GiB."""
    batch, heads, queries, _ = case.shape
    size = batch * heads * queries * keys_of(case) * item_bytes
    if size > MOST_SCORE_BYTES:
        raise Unsupported(f"all scores at once would take {size / 2**30:.0f} GiB")
