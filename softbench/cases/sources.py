"""The sources of a family folder, and the hash that identifies an implementation's version.

The registry computes the hash when a run begins, and a worker again from the bytes that it executes.
"""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from softbench.resources import read_bounded

SUFFIXES = (".py", ".cu", ".cuh")


@dataclass(frozen=True)
class Family:
    """A folder and its sources: relative path with slashes -> content, empty for what is no plain file."""

    folder: Path
    files: dict[str, bytes]

    def hash_of(self, path: Path) -> str:
        """The source hash of the implementations in a file directly in the folder: 16 hexadecimal digits."""
        digest = hashlib.sha256()
        for name, content in self.files.items():
            digest.update(f"{name}\0{len(content)}\0".encode())
            digest.update(content)
        return hashlib.sha256(f"{path.name}\0{digest.hexdigest()}".encode()).hexdigest()[:16]

    def version(self, path: Path, source_hash: str) -> "Family | None":
        """What has a file's hash: the family, or the file alone, as an operator's is."""
        both = (self, Family(self.folder, {path.name: self.files[path.name]}))
        return next((family for family in both if family.hash_of(path) == source_hash), None)

    def change_since(self, path: Path, source_hash: str) -> str:
        """Why the file's hash is not this one any more: names the one file that was added, if that is all.

        A kernel may open or import any file by a name that it makes, so an added one counts too.
        """
        for new in self.files:
            if Family(self.folder, {name: data for name, data in self.files.items() if name != new}).hash_of(path) == source_hash:
                return f"its family {self.folder.name} has a new file, {new}"
        return f"its source is all code of its family {self.folder.name}"


def alone(path: Path, text: str) -> Family:
    """A file with this text as a family of its own, without its neighbours."""
    return Family(path.parent, {path.name: text.encode()})


def read(folder: Path, error: type[Exception] = OSError) -> Family:
    """All sources below a family folder, in a fixed order. Raises `error`, in one line, if one cannot be read."""
    files: dict[str, bytes] = {}
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name != "__pycache__" and name[0] != ".")
        for path in (Path(place, name) for name in sorted(names) if name.endswith(SUFFIXES)):
            files[path.relative_to(folder).as_posix()] = read_bounded(path, error) if path.is_file() else b""
    return Family(folder, files)
