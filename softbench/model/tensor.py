"""The type of tensors, for annotations: who only names it imports no torch."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor as Tensor
else:
    Tensor = Any
