"""The claims of others against the newest runs of each machine that have their cells; runs that were sent decide none."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import cast

from softbench.analysis import claims
from softbench.analysis.ledger.machines import Machine
from softbench.cli.site.writing import Shelf
from softbench.cli.submissions.folder import sha256
from softbench.records import store
from softbench.records.claims import ClaimFile
from softbench.texts import InputError

FORM = "1"
"""Changes with what a verdict is."""


def verdicts(
    machines: Sequence[Machine], files: Sequence[ClaimFile], paths: Mapping[str, Path], shelf: Shelf
) -> dict[tuple[str, ...], list[list[str]]]:
    """By key of a machine: source, statement, verdict, measured, would hold. Answers are kept, since runs are read for them."""
    return {machine.key: found for machine in machines if (found := _of(machine, files, paths, shelf))}


def _of(machine: Machine, files: Sequence[ClaimFile], paths: Mapping[str, Path], shelf: Shelf) -> list[list[str]]:
    needed = _needed(machine, files)
    own = [run for at, run in enumerate(machine.runs) if at in needed]
    told = (FORM, [vars(file) | {"name": ""} for file in files], [run.file for run in own])
    key = sha256(repr(told).encode())
    if (kept := shelf.kept(f"{key}-claims")) is not None:
        return cast("list[list[str]]", json.loads(kept))
    runs = [store.read(paths[run.passport.run_id]) for run in own]
    found: list[list[str]] = []
    with suppress(InputError):  # no run has a case of any claim
        rows, _ = claims.datasets(claims.judge(runs, files))
        index = [rows.columns.index(name) for name in ("source", "statement", "verdict", "measured", "would_hold")]
        found = [[str(row[at]) for at in index] for row in rows.rows]
    shelf.keep(f"{key}-claims", json.dumps(found).encode())
    return found


def _needed(machine: Machine, files: Sequence[ClaimFile]) -> set[int]:
    """The places of the newest runs with the cells that any claim is about."""
    found: set[int] = set()
    for claim in (claim for file in files for claim in file.claims):
        names = {*claim.who, claim.than}
        for case_id, entries in machine.by_case.items():
            if any(fnmatchcase(case_id, pattern) for pattern in claim.where):
                at = [at for at, entry in entries if entry.implementation in names and not machine.runs[at].sent]
                found |= {max(at)} if at else set()
    return found
