"""Finds the operators of a project's own; no file is imported here.

Every .py file without a leading underscore directly in an operators folder is read; a file that does not import softbench
declares nothing. An operator is one file: it imports nothing from its folder, so that its source says all that it asks.
"""

from collections.abc import Sequence
from pathlib import Path

from softbench.cases import operators
from softbench.cases.declarations import RegistryError, python_files, require_folder, word
from softbench.cases.operators import FileOperator
from softbench.cases.operators.reading import read
from softbench.model import Variant
from softbench.resources import bundled_operators, shown

FOLDER = "operators"
"""The folder next to shapes.yaml that is read if a command names none."""


def beside(folder: Path) -> tuple[Path, ...]:
    """The operators folder of a project, if it has one; that of a checkout comes with softbench."""
    found = folder / FOLDER
    return (found,) if found.is_dir() and found.resolve() != bundled_operators() else ()


def load(folders: Sequence[Path], kernels: Sequence[Path] = ()) -> tuple[FileOperator, ...]:
    """Find the operators of some folders and know them in this process. Raises RegistryError at the first mistake.

    kernels  folders of implementations: what they hold is judged, so no operator may come from there
    """
    found: dict[str, FileOperator] = {}
    for folder in dict.fromkeys(folder.resolve() for folder in folders):
        require_folder(folder, "operators")
        for path in python_files(folder):
            declared = _outside(path, kernels)
            if declared is None:
                continue
            if declared.name in operators.OPERATORS or declared.name in operators.bundled():
                raise RegistryError(f"{declared.place}: operator {declared.name!r} is one of softbench's own; rename this one")
            if other := found.get(declared.name):
                raise RegistryError(f"{declared.place}: operator {declared.name!r} is declared in {other.place} too; rename one")
            found[declared.name] = declared
    operators.use(found.values())
    return tuple(found.values())


def _outside(path: Path, kernels: Sequence[Path]) -> FileOperator | None:
    """The operator that a file declares, which may not lie among kernels, not even by a link; other files may."""
    among = next((folder for folder in kernels if path.resolve().is_relative_to(folder)), None)
    try:
        declared = read(path)
    except RegistryError:
        if among is None:
            raise
        return None  # a mistake in a file of kernels is reported there
    if declared is not None and among is not None:
        what = f"operator {declared.name!r} lies in {shown(among)}, whose kernels it judges"
        raise RegistryError(f"{declared.place}: {what}; move it out of there")
    return declared


def baseline(declared: FileOperator) -> Variant:
    """The torch function of an operator's file, as an implementation."""
    return Variant(
        implementation=declared.baseline,
        operator=declared.name,
        family=word(declared.path.parent.name),
        path=str(declared.path),
        source_hash=declared.source_hash,
        requires=("torch",),
        summary=declared.summary,
    )
