"""Imports one implementation file under a private package name, so that `impls/triton` never shadows `triton`.

Python files of a family are executed from the bytes that were hashed, even if the files have changed since. linecache holds them
too, from where Triton and the CuTe DSL read their kernels. Other sources are compared with the hashed bytes again after use.
"""

from __future__ import annotations

import hashlib
import importlib.machinery
import importlib.util
import linecache
import sys
import types
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from softbench.cases import sources
from softbench.cases.operators import FileOperator
from softbench.model import SOURCES_CHANGED

_ROOT = "_softbench_implementations"


class SourcesChanged(Exception):
    """The sources are not what the run started with; the message is one line."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{SOURCES_CHANGED}: {what}; it is no failure of the kernel: run it again")


def load(path: Path, name: str, source_hash: str = "") -> Any:
    """The declared factory `name` of a file; siblings are importable relatively (`from ._kernels import ...`).

    Raises SourcesChanged if a hash is given that the sources of its family do not have, and what the file raises.
    """
    return getattr(_module(_place(path), source_hash), name)


def _place(path: Path) -> Path:
    """The file in the folder where it is, also if it is a link to another one: its neighbours are those of the link."""
    return path.parent.resolve() / path.name


def operator(declared: FileOperator) -> FileOperator:
    """The operator of a file with its functions: its text is executed by itself, with no neighbour to import.

    `load` finds the baseline in it from then on. Raises what the file raises.
    """
    path = _place(declared.path)
    if _alone(path, declared.source_hash) is None:
        _add(_Finder(_package_name(f"{path} {declared.source_hash}"), sources.alone(path, declared.source), path))
    return replace(declared, code=load(path, declared.name, declared.source_hash))


def require_unchanged(path: Path) -> None:
    """Raises SourcesChanged if a source that the implementation reads itself (not Python) is not what was hashed."""
    finder = _finder(_place(path).parent)
    for name, held in finder.family.files.items():
        file = finder.family.folder / name
        if not name.endswith(".py") and file.is_file() and file.read_bytes() != held:
            raise SourcesChanged(f"{finder.family.folder.name}/{name} changed")


def folders() -> list[Path]:
    """The folders of the implementations that this process has loaded; a worker has those of one family."""
    return [finder.family.folder for finder in sys.meta_path if isinstance(finder, _Finder)]


def _module(path: Path, source_hash: str) -> types.ModuleType:
    finder = _alone(path, source_hash) or _finder(path.parent)
    if source_hash and finder.family.hash_of(path) != source_hash:
        sys.meta_path.remove(finder)  # they may have been restored by the next request
        raise SourcesChanged(f"the sources in {path.parent.name} changed")
    full = f"{finder.package}.{path.stem}"
    if full in sys.modules:
        return sys.modules[full]
    spec = finder.find_spec(full, [str(path.parent)])
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} cannot be imported as Python")
    module = importlib.util.module_from_spec(spec)
    sys.modules[full] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[full]  # so that the next variant meets the same error, not half a module
        raise
    return module


def _finder(folder: Path) -> _Finder:
    """The finder of a family; the first request reads its sources."""
    package = _package_name(str(folder))
    found = next((f for f in sys.meta_path if isinstance(f, _Finder) and f.package == package), None)
    return found or _add(_Finder(package, sources.read(folder)))


def _alone(path: Path, source_hash: str) -> _Finder | None:
    """The finder of a file that was loaded by itself, in the version of this hash."""
    finders = (f for f in sys.meta_path if isinstance(f, _Finder) and f.only == path)
    return next((f for f in finders if f.family.hash_of(path) == source_hash), None)


def _add(finder: _Finder) -> _Finder:
    sys.meta_path.insert(0, finder)
    _package(_ROOT, None)
    _package(finder.package, finder.family.folder)
    return finder


def _package_name(place: str) -> str:
    return f"{_ROOT}.f{hashlib.sha256(place.encode()).hexdigest()[:10]}"


def _package(name: str, folder: Path | None) -> None:
    if name not in sys.modules:
        package = types.ModuleType(name)
        package.__path__ = [str(folder)] if folder else []
        sys.modules[name] = package


class _Finder:
    """Finds the modules of one family among the sources that were read; the rest is left to Python's own finders.

    only  the file that is all of the family, None for a folder
    """

    def __init__(self, package: str, family: sources.Family, only: Path | None = None) -> None:
        self.package, self.family, self.only = package, family, only

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if not fullname.startswith(f"{self.package}."):
            return None
        for folder in map(Path, path or ()):
            stem = folder / fullname.rpartition(".")[2]
            for file, own in ((stem / "__init__.py", [str(stem)]), (stem.with_suffix(".py"), None)):
                if not file.is_relative_to(self.family.folder):
                    continue
                held = self.family.files.get(file.relative_to(self.family.folder).as_posix())
                if held is not None:
                    loader = _Held(fullname, str(file), held)
                    return importlib.util.spec_from_file_location(fullname, file, loader=loader, submodule_search_locations=own)
                if file.is_file():
                    raise SourcesChanged(f"{self.family.folder.name}/{file.name} has come since")
        return None


class _Held(importlib.machinery.SourceFileLoader):
    """Executes bytes from memory under the name of their file; no compiled file is read or written."""

    def __init__(self, fullname: str, path: str, data: bytes) -> None:
        super().__init__(fullname, path)
        self._data = data

    def get_data(self, path: str) -> bytes:
        return self._data if path == self.path else super().get_data(path)

    def get_code(self, fullname: str) -> types.CodeType:
        text = importlib.util.decode_source(self._data)
        # an entry without a modification time is never compared with the file
        linecache.cache[self.path] = (len(self._data), None, text.splitlines(keepends=True), self.path)
        code: types.CodeType = self.source_to_code(self._data, self.path)
        return code
