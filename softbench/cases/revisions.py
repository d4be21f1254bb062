"""Implementations of another revision, folder or environment, under names of their own: `mine@REVISION`."""

import hashlib
import io
import os
import re
import subprocess
import tarfile
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from softbench.cases import environments, registry
from softbench.model import Variant
from softbench.resources import shown
from softbench.texts import InputError, printable

_LABEL = re.compile(r"[A-Za-z0-9_.-]{1,24}")
_GIT_S = 60.0


class RevisionError(InputError):
    """A version or a range of commits cannot be had; the message says why."""


@dataclass(frozen=True)
class Commit:
    """A commit: its full hash, first line, author and day, and the revision by which it was asked for."""

    id: str
    subject: str
    author: str
    day: str
    revision: str = ""

    @property
    def short(self) -> str:
        """The hash in 12 digits, which is also the label of its implementations."""
        return self.id[:12]

    @property
    def name(self) -> str:
        """What it is called in a sentence: as it was asked for, unless that is long."""
        return self.revision if 0 < len(self.revision) <= 20 else self.short


def find_all(versions: Sequence[str], folders: Sequence[Path]) -> tuple[Variant, ...]:
    """`find` of each of these; a version that is named twice counts once. Raises InputError, also if two have one name."""
    found: dict[str, str] = {}
    variants: list[Variant] = []
    for against in dict.fromkeys(versions):
        own = find(against, folders)
        for variant in own:
            if found.setdefault(variant.implementation, against) != against:
                both = f"{found[variant.implementation]!r:.60} and {against!r:.60}"
                raise RevisionError(f"--softbench-against: {both} are both called {variant.implementation}")
        variants += own
    return tuple(variants)


def find(against: str, folders: Sequence[Path]) -> tuple[Variant, ...]:
    """The variants of these folders at git:REVISION or in venv:PATH, or those of the folder that `against` names.

    Each is called NAME@LABEL, where the label is the revision or the folder's name. Raises InputError.
    """
    try:
        label, places, python = _version(against, folders)
    except InputError as error:
        raise RevisionError(f"--softbench-against: {error}") from None
    name = label[0] if label else "other"
    found = registry.find(places, unread=[] if python else None)
    return tuple(replace(v, implementation=f"{v.implementation}@{name}", interpreter=python) for v in found)


def at(commit: Commit, folder: Path) -> tuple[Path, tuple[Variant, ...]]:
    """Where a folder is unpacked as it was at a commit, and its variants, under the names that they had. Raises InputError."""
    place = _place(folder, commit.id)
    return place, registry.find([place])


def commit(revision: str, folder: Path) -> Commit:
    """A revision of the repository that the folder is in. Raises RevisionError."""
    return replace(_log(folder, "--max-count=1", _hash(folder, revision), "--")[0], revision=printable(revision))


def changes(good: Commit, bad: Commit, folder: Path, inside: Sequence[str] = (".",)) -> tuple[Commit, ...]:
    """The commits after `good` up to `bad` that changed one of these paths inside the folder, oldest first.

    Of a merge only the first parent is followed, so that each commit has all changes of the one before it.
    Raises RevisionError unless `good` is an ancestor of `bad`.
    """
    if _git(folder, "rev-list", "--max-count=1", f"{bad.id}..{good.id}").strip():
        advice = "name the older revision first, and one that the other is based on"
        raise RevisionError(f"{good.name} is no ancestor of {bad.name}; {advice}")
    return _log(folder, "--reverse", f"{good.id}..{bad.id}", "--", *inside)


def _log(folder: Path, *words: str) -> tuple[Commit, ...]:
    form = ("-z", "--first-parent", "--no-show-signature", "--format=%H%x01%s%x01%an%x01%as")
    lines = _git(folder, "log", *form, *words).decode(errors="replace").split("\0")
    return tuple(Commit(*map(printable, line.split("\1")[:4])) for line in lines if line)


def _version(against: str, folders: Sequence[Path]) -> tuple[re.Match[str] | None, list[Path], str]:
    """The label of a version, where its folders are, and the python of another environment that runs it, or ""."""
    kind, colon, revision = against.partition(":")
    if kind == "git" and colon:
        hashes = [_hash(folder, revision) for folder in folders]
        places = [_place(folder, own) for folder, own in zip(folders, hashes, strict=True)]
        return _LABEL.fullmatch(revision) or _LABEL.match(hashes[-1][:12]), places, ""
    if kind == "venv" and colon:
        environment = environments.find(revision)
        return _LABEL.match(environment.name), list(folders), environment.python
    place = Path(against)
    if not against or not place.is_dir():
        raise RevisionError(f"{against!r:.60} is no folder, and not of the form git:REVISION or venv:PATH")
    return _LABEL.match(place.resolve().name), [place], ""


def _top(folder: Path) -> Path:
    return Path(_git(folder, "rev-parse", "--show-toplevel").decode().strip())


def _hash(folder: Path, revision: str) -> str:
    top, named = _top(folder), f"{revision}^{{commit}}"
    try:
        return _git(folder, "rev-parse", "--verify", "--end-of-options", named).decode().strip()
    except RevisionError:
        raise RevisionError(f"{revision!r:.60} is no revision of {shown(top)}") from None


def _place(folder: Path, commit: str) -> Path:
    top = _top(folder)
    try:
        return _unpacked(top, commit, folder.resolve().relative_to(top.resolve()).as_posix())
    except (OSError, tarfile.TarError) as error:  # such as a full disk
        raise RevisionError(f"{shown(folder)} at {commit[:12]} cannot be unpacked: {error}") from None


def _unpacked(top: Path, commit: str, inside: str) -> Path:
    """A folder of a commit, next to the cache, to which implementations may write; it is unpacked once."""
    cache = os.environ.get("SOFTBENCH_CACHE_DIR") or Path.home() / ".cache" / "softbench"
    place = Path(f"{cache}-against") / hashlib.sha256(f"{top}\0{commit}\0{inside}".encode()).hexdigest()[:16]
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
    except FileNotFoundError:
        raise RevisionError("git is not on the PATH; install it") from None
    except (OSError, subprocess.SubprocessError) as error:
        said = getattr(error, "stderr", b"") or str(error).encode()
        why = said.decode(errors="replace").strip().splitlines() or [""]
        raise RevisionError(f"git {arguments[0]} in {shown(folder)}: {why[-1]:.200}") from None
    return done.stdout
