"""Runs in short from files: each file is read once, then its entries from the site's own folder, by the hash of the file."""

import json
import multiprocessing
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

from softbench import typed
from softbench.analysis import ledger
from softbench.analysis.ledger import Kept
from softbench.cases import sources
from softbench.cli.site.writing import Shelf
from softbench.cli.submissions.folder import MANIFEST, RECORDS, SOURCES, answered, examine, files_of, sha256
from softbench.model import Passport
from softbench.records import store
from softbench.resources import shown
from softbench.texts import InputError

FORM = "1"
"""Changes with what an entry is."""
FORKED = 16
"""If at least this many files are new, one process per core reads them."""
SUFFIXES = (".jsonl", ".jsonl.xz", ".jsonl.gz")


class Source(NamedTuple):
    """A file and its SHA-256; sent is that of all files of a submission, "" for our own."""

    path: Path
    digest: str
    sent: str


def read(names: Sequence[Path], shelf: Shelf) -> tuple[list[tuple[Kept, Path]], list[str]]:
    """The runs with their files, and "FILE: why" of those left out. Raises InputError if a name or any run is missing."""
    if missing := next((name for name in names if not name.exists()), None):
        raise InputError(f"{shown(missing)}: no such file or folder; name files or folders of records")
    left_out: list[str] = []
    kept: dict[str, tuple[Kept, Path]] = {}
    found = list(_sources(names, shelf.folder.resolve(), left_out))
    known = {source: run for source in found if (run := _restored(source, shelf.kept(_key(source)))) is not None}
    fresh = [source for source in found if source not in known]
    for source, told in zip(fresh, _each(fresh), strict=True):
        if isinstance(told, str):
            left_out.append(f"{shown(source.path)}: {told}")
        elif (run := _restored(source, told)) is not None:
            shelf.keep(_key(source), told)
            known[source] = run
    for source, run in sorted(known.items(), key=lambda item: item[0][:0:-1]):  # our own first
        first, path = kept.setdefault(run.passport.run_id, (run, source.path))
        if first.entries == run.entries:  # a run of ours that was sent too: the sources came with what was sent
            kept[run.passport.run_id] = replace(first, sources=first.sources or run.sources), path
        elif first.file != run.file:
            left_out.append(f"{shown(source.path)}: is another file of the run {run.passport.run_id}")
    if not kept:
        raise InputError(left_out[0] if left_out else f"{shown(names[0])}: holds no run")
    return list(kept.values()), sorted(left_out)


def _sources(names: Sequence[Path], site: Path, left_out: list[str]) -> Iterator[Source]:
    """What the names hold, without the copies in the site itself."""
    for path in (path for name in names for path in (sorted(name.rglob("*")) if name.is_dir() else [name])):
        if not path.name.endswith(SUFFIXES) or (not path.is_file() and path not in names):
            continue
        if site in path.resolve().parents:
            continue
        try:
            sent = _digest(path.parent) if path.name == RECORDS and (path.parent / MANIFEST).is_file() else ""
            with path.open("rb") as file:
                digest = sha256(file.read(store.lines.MOST_BYTES + 1))
        except (OSError, InputError) as error:
            left_out.append(f"{shown(path)}: {getattr(error, 'strerror', None) or error}")
            continue
        yield Source(path, digest, sent)


def _each(fresh: Sequence[Source]) -> Iterator[bytes | str]:
    if len(fresh) < FORKED:
        yield from map(_condensed, fresh)
        return
    with multiprocessing.get_context("fork").Pool(min(os.cpu_count() or 1, 8)) as pool:
        yield from pool.imap(_condensed, fresh, chunksize=4)


def _condensed(source: Source) -> bytes | str:
    """A run in short, as it is kept; or why it cannot be."""
    path, sent = source.path, source.sent
    try:
        if sent:
            examine(path.parent, path.parent.name)
        run = store.read(path)
    except (InputError, OSError) as error:
        return str(error).replace(f"{path}:", "").replace(str(path), "").strip()
    data: dict[str, Any] = {"passport": asdict(run.passport), **ledger.plain(ledger.condense(run))}
    if sent:
        data["sources"] = _texts(path.parent / SOURCES, {r.variant.source_hash: r.variant.path for r in answered(run)})
    return json.dumps(data, separators=(",", ":"), sort_keys=True).encode()


def _texts(folder: Path, known: dict[str, str]) -> dict[str, dict[str, str]]:
    """The files of each source hash: its own and what its family shares, as text."""
    found = {}
    for source, path in known.items():
        family = sources.read(folder / Path(path).parts[0], InputError).files
        names = [name for name in family if name == Path(path).name or name[0] == "_" or "/" in name]
        found[source] = {name: family[name].decode(errors="replace") for name in names}
    return found


def _key(source: Source) -> str:
    return f"{source.digest}-{source.sent}{FORM}"


def _digest(folder: Path) -> str:
    """Of all files of a submission, which are few and bounded. Raises InputError where they are not."""
    named = [(path, sha256((folder / path).read_bytes())) for path in sorted(files_of(folder))]
    return sha256(repr(named).encode())[:32]


def _restored(source: Source, data: bytes | None) -> Kept | None:
    try:
        parsed = json.loads(data or b"")
        passport = typed.build(Passport, parsed["passport"])
        suffix = next(own for own in SUFFIXES if source.path.name.endswith(own))
        return Kept(passport, ledger.restored(parsed), source.digest + suffix, bool(source.sent), parsed.get("sources", {}))
    except (KeyError, TypeError, ValueError, IndexError, RecursionError):
        return None
