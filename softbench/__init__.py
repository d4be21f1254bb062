"""softbench: which softmax is fastest on this GPU, by how much, and is it right?

Kernel authors need two names from here, both free of heavy imports::

    from softbench import Unsupported, implementation
"""

from softbench.contract import Unsupported, implementation

__all__ = ["Unsupported", "__version__", "implementation"]
__version__ = "0.1.0"
