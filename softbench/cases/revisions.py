"""Implementations of another revision, or of another folder, under names of their own: `mine@REVISION`."""

from __future__ import annotations

import hashlib
import io
import os
import re
import subprocess
import tarfile
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from softbench.cases import registry
from softbench.model import Variant
from softbench.resources import shown
from softbench.texts import InputError

_LABEL = re.compile(r"[A-Za-z0-9_.-]{1,24}")
_GIT_S = 60.0


class RevisionError(InputError):
    """What --softbench-against names cannot be had; the message says why."""


def find(against: str, folders: Sequence[Path]) -> tuple[Variant, ...]:
    """The variants of these folders at git:REVISION, or those of the folder that `against` names.

    Each is called NAME@LABEL, where the label is the revision or the folder's name. Raises InputError.
    """
    kind, colon, revision = against.partition(":")
    if kind == "git" and colon:
        label, places = _at(revision, folders)
    else:
        place = Path(against)
        if not against or not place.is_dir():
            raise RevisionError(f"--softbench-against: {against!r:.60} is no folder, and not of the form git:REVISION")
        label, places = _LABEL.match(place.resolve().name), [place]
    name = label[0] if label else "other"
    return tuple(replace(v, implementation=f"{v.implementation}@{name}") for v in registry.find(places))


def _at(revision: str, folders: Sequence[Path]) -> tuple[re.Match[str] | None, list[Path]]:
    """The label of a revision, and where the folders are unpacked as they were then."""
    places, commit, named = [], "", f"{revision}^{{commit}}"
    for folder in folders:
        top = _git(folder, "rev-parse", "--show-toplevel").decode().strip()
        try:
            commit = _git(folder, "rev-parse", "--verify", "--end-of-options", named).decode().strip()
        except RevisionError:
            raise RevisionError(f"--softbench-against: {revision!r:.60} is no revision of {shown(Path(top))}") from None
        inside = folder.resolve().relative_to(Path(top).resolve()).as_posix()
        try:
            places.append(_unpacked(Path(top), commit, inside))
        except (OSError, tarfile.TarError) as error:  # such as a full disk
            raise RevisionError(
                f"--softbench-against: {shown(folder)} at {revision:.60} cannot be unpacked: {error}"
            ) from None
    return _LABEL.fullmatch(revision) or _LABEL.match(commit[:12]), places


def _unpacked(top: Path, commit: str, inside: str) -> Path:
    """A folder of a commit, below the cache; it is unpacked once."""
    cache = os.environ.get("SOFTBENCH_CACHE_DIR") or Path.home() / ".cache" / "softbench"
    place = Path(cache) / "against" / hashlib.sha256(f"{top}\0{commit}\0{inside}".encode()).hexdigest()[:16]
    target = place / (Path(inside).name or "root")
    if not target.is_dir():
        archive = _git(top, "archive", "--format=tar", commit, "--", inside)
        place.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=place) as part, tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            # A link could lead out of the folder.
            tar.extractall(part, members=[m for m in tar if m.isfile() or m.isdir()], filter="data")
            try:
                Path(part, inside).rename(target)
            except OSError:  # another process was faster
                if not target.is_dir():
                    raise
    return target


def _git(folder: Path, *arguments: str) -> bytes:
    try:
        done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, check=True, timeout=_GIT_S)
    except (OSError, subprocess.SubprocessError) as error:
        said = getattr(error, "stderr", b"") or str(error).encode()
        why = said.decode(errors="replace").strip().splitlines() or [""]
        raise RevisionError(f"--softbench-against: git {arguments[0]} in {shown(folder)}: {why[-1]:.200}") from None
    return done.stdout
