"""Imports one implementation file under a private package name, so that `impls/triton` never shadows `triton`."""

from __future__ import annotations

import hashlib
import importlib.util
import re
import sys
import types
from pathlib import Path
from typing import Any

_ROOT = "_softbench_implementations"


def load(path: Path, name: str) -> Any:
    """The declared factory `name` of a file; siblings are importable relatively (`from ._kernels import ...`)."""
    return getattr(_module(path), name)


def folders() -> list[Path]:
    """Where the implementations that this process has loaded lie; a worker has those of one."""
    found = (module for name, module in sys.modules.items() if re.fullmatch(rf"{_ROOT}\.f\w+", name))
    return [Path(folder) for module in found for folder in module.__path__]


def _module(path: Path) -> types.ModuleType:
    path = path.resolve()
    family = f"{_ROOT}.f{hashlib.sha256(str(path.parent).encode()).hexdigest()[:10]}"
    full = f"{family}.{path.stem}"
    if full in sys.modules:
        return sys.modules[full]
    _package(_ROOT, None)
    _package(family, path.parent)
    spec = importlib.util.spec_from_file_location(full, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} cannot be imported as Python")
    module = importlib.util.module_from_spec(spec)
    sys.modules[full] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[full]  # the next variant is to meet the same error, not half a module
        raise
    return module


def _package(name: str, folder: Path | None) -> None:
    if name not in sys.modules:
        package = types.ModuleType(name)
        package.__path__ = [str(folder)] if folder else []
        sys.modules[name] = package
