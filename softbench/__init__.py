"""softbench: which softmax is fastest on this GPU, by how much, and is it right?

Kernel authors need two names from here, both free of heavy imports::

    from softbench import Unsupported, implementation

The words of records are here as well, for annotations and for whoever reads runs: `Case`, `Record`, `Run`, `Status`, `Variant`.
"""

from typing import TYPE_CHECKING, Any

from softbench.contract import Unsupported, implementation

if TYPE_CHECKING:
    from softbench.model import Case, Record, Run, Status, Variant

__all__ = ["Case", "Record", "Run", "Status", "Unsupported", "Variant", "__version__", "implementation"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """The words of `softbench.model`, imported when one is asked for: pytest loads this package in every project."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from softbench import model

    return getattr(model, name)
