"""What an implementation file imports: the decorator of its factory, and `Unsupported` for cases that it does not serve."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ParamSpec, Protocol, TypeVar

Scalar = int | float | bool | str
Factory = Callable[..., Any]
Cubins = Callable[..., Iterable[tuple[str, bytes]]]
P = ParamSpec("P")
T = TypeVar("T")


class Unsupported(Exception):
    """Raised by a factory for a case that its kernel does not serve; the message says why, in one line."""


class Declared(Protocol):
    """A factory after `@implementation`: still callable, and able to take a `cubins` function."""

    softbench_cubins: Cubins | None

    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

    def cubins(self, function: Cubins) -> Cubins: ...


def implementation(
    *,
    operator: str | Sequence[str],
    requires: Sequence[str] = (),
    params: dict[str, list[Scalar]] | None = None,
    known_failures: dict[str, str] | None = None,
    ladder: bool = False,
) -> Callable[[Factory], Declared]:
    """Declare that the decorated function is a factory of launches for an operator, or for several.

    All arguments must be literals: the registry reads them from the source without importing the file.

    operator        name of the operator ("softmax"), or a list of names: the factory then makes the launch of
                    `case.operator`, and appears under its one name on the board of each
    requires        what the machine must have: "cuda>=sm_90", or a distribution such as "triton>=3.6". With
                    "triton" among them the kernel runs in Triton's interpreter if there is no GPU
    params          tuning parameters, each with its values; every combination is one variant
    known_failures  patterns of case ids (as in fnmatch), apart by spaces -> why a third-party kernel fails there
    ladder          True for a step on the way to a better kernel: it takes part only if it is named
                    (`softbench.session.selection.Ladders`)

    The factory is called once per case as ``factory(case, **params)``, untimed: compile, tune and allocate
    there. It returns ``launch(*inputs) -> tensor or tuple of tensors``, which allocates its output and enqueues on
    the current stream; the launch is what is timed and checked. Raise `Unsupported` for a case it does not serve.
    """
    del operator, requires, params, known_failures, ladder  # read from the source by softbench.cases.registry

    def declare(factory: Factory) -> Declared:
        def cubins(function: Cubins) -> Cubins:
            """Register ``function(case, **params)``, which yields (kernel name, sm_90a cubin) without a GPU."""
            factory.softbench_cubins = function  # type: ignore[attr-defined]
            return function

        factory.softbench_cubins = None  # type: ignore[attr-defined]
        factory.cubins = cubins  # type: ignore[attr-defined]
        return factory  # type: ignore[return-value]

    return declare
