"""How far right outputs are from the exact values, in units of the bound on each element's error."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Accuracy:
    """Errors of the elements of one launch's outputs, each over the bound that its operator allows it there: 1 is the bound.

    largest and p99 are of magnitudes (p99 is the 99th percentile), bias is the mean with its sign. elements is how many have a
    bound above 0 and a finite value. Raises ValueError for what no right output can have.
    """

    largest: float
    p99: float
    bias: float
    elements: int

    def __post_init__(self) -> None:
        if not (0 <= self.p99 <= self.largest <= 1 and abs(self.bias) <= 1 and self.elements > 0):
            raise ValueError("errors that are no share of their bound")
