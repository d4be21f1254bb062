"""What a launch returned, seen without asking anything of it that its class could answer wrongly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor


def as_tuple(returned: Any) -> tuple[Any, ...]:
    """The outputs of a launch: those of a tuple, or the one. A subclass of tuple may give other elements each time: it is one."""
    return returned if type(returned) is tuple else (returned,)


def lazy(y: Tensor) -> str:
    """Why the values of a tensor may not be in its memory; "" for a plain one.

    Nothing else is asked of it: a subclass computes in the methods that it overrides, and would do so while it is judged.
    """
    import torch

    if type(y) is not torch.Tensor and type(y) is not torch.nn.Parameter:  # not by ==, which a metaclass answers
        return f"a {type(y).__name__}, which may compute when it is read; return a plain torch.Tensor"
    if y.is_neg() or y.is_conj() or y._is_zerotensor():
        return "a negation, a conjugation or a zero that is not carried out; call resolve_neg() and its kin"
    return ""
