"""softbench: which softmax is fastest on this GPU, by how much, and is it right?

Kernel authors need two names from here, both free of heavy imports::

    from softbench import Unsupported, implementation

What a kernel needs to know of its operator is here too: `RMS_EPS` and `LAYER_EPS`, the constants of the norms; `keys_of` and
`scale_of`, the number of keys and the scale of an attention case; `parse_layout`, which turns the name of a layout into a
`Layout`; `DTYPE_BYTES`, the size of an element.

The file of an operator of a project's own takes `operator`.

Programs that read runs take `load` and the types of records: `Run`, `Record`, `Case`, `Variant`, `Status`, `Samples`::

    import softbench

    for record in softbench.load("latest").records:
        print(record.case.id, record.variant.id, record.status.value)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from softbench.contract import Unsupported, implementation

if TYPE_CHECKING:
    from softbench.cases.operators.attention import keys_of, scale_of
    from softbench.cases.operators.captured import capture
    from softbench.cases.operators.in_files import operator
    from softbench.cases.operators.norms import LAYER_EPS, RMS_EPS
    from softbench.cases.operators.vocabulary import Layout, parse_layout
    from softbench.cli.api import run
    from softbench.model import DTYPE_BYTES, Case, Record, Run, Samples, Status, Variant
    from softbench.records.store import load

__all__ = [
    "DTYPE_BYTES",
    "LAYER_EPS",
    "RMS_EPS",
    "Case",
    "Layout",
    "Record",
    "Run",
    "Samples",
    "Status",
    "Unsupported",
    "Variant",
    "__version__",
    "capture",
    "implementation",
    "keys_of",
    "load",
    "operator",
    "parse_layout",
    "run",
    "scale_of",
]
__version__ = "0.1.0"
_OWNERS = {
    "run": "cli.api",
    "capture": "cases.operators.captured",
    "keys_of": "cases.operators.attention",
    "scale_of": "cases.operators.attention",
    "LAYER_EPS": "cases.operators.norms",
    "RMS_EPS": "cases.operators.norms",
    "Layout": "cases.operators.vocabulary",
    "parse_layout": "cases.operators.vocabulary",
    "load": "records.store",
    "operator": "cases.operators.in_files",
}
"""The modules of the names that are not in `softbench.model`."""


def __getattr__(name: str) -> Any:
    """Import the owner of a name when it is asked for: pytest loads this package in every project."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"softbench.{_OWNERS.get(name, 'model')}"), name)
