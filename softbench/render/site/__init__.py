"""Pages of all runs, each by a path that follows from what it is about, so that links stay when runs are added. Pure.

index.html  machines/  operators/  implementations/  cases/  runs/  records/SHA256.SUFFIX
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from softbench.analysis.compare import forest
from softbench.analysis.compare.surroundings import date
from softbench.analysis.document import Heading, lines
from softbench.analysis.history.summary import A_STEP, document
from softbench.analysis.leaderboard.formatting import short
from softbench.analysis.ledger import Kept, documents, moves
from softbench.analysis.ledger.documents import Claims
from softbench.analysis.ledger.machines import Machine
from softbench.render.report.document_page import FOREST
from softbench.render.report.drawing.forest import forest_plot
from softbench.render.report.drawing.styles import Looks
from softbench.render.report.figures.history import figures
from softbench.render.report.html import panel
from softbench.render.site.sheet import Block, Names, download, path, sheet

Page = tuple[str, str]
"""Path below the site, and HTML."""


def pages(machines: Sequence[Machine], claims: Claims, left_out: Sequence[str] = ()) -> Iterator[Page]:
    """Every page of a site; left_out: "FILE: why" of files that hold no run."""
    names, entries = Names(), [entry for machine in machines for run in machine.runs for entry in run.entries]
    for machine in machines:
        names.add("machine", machine.title, repr(machine.key))
        for run in machine.runs:
            names.add("run", run.passport.run_id)
    for entry in entries:
        names.add("case", entry.id)
        names.add("operator", entry.case.operator)
        names.add("implementation", entry.implementation)
    looks = Looks({entry.implementation: entry.family for entry in entries})
    yield "index.html", sheet("Who leads", documents.index(machines, claims, left_out), names, looks, "")
    for machine in machines:
        yield _machine(machine, claims, names, looks)
        for at, run in enumerate(machine.runs):
            yield _run(machine, at, run, names, looks)
    for kind, make in (("operator", _operator), ("case", _case), ("implementation", documents.implementation)):
        for name in names.of.get(kind, ()):
            blocks = [block for machine in machines for block in make(machine, name)]
            yield path(kind, name), sheet(name, blocks, names, looks)


def _machine(machine: Machine, claims: Claims, names: Names, looks: Looks) -> Page:
    blocks: list[Block] = [*documents.told(claims.get(machine.key, ())), *documents.runs(machine.runs)]
    for operator in machine.histories:
        blocks += documents.operator(machine, operator)
    return path("machine", repr(machine.key)), sheet(machine.title, blocks, names, looks)


def _operator(machine: Machine, name: str) -> Iterator[Block]:
    found = machine.histories.get(name)
    if found is not None:
        yield Heading(machine.title)
        yield from documents.operator(machine, name)
        yield from figures(found, _key(machine), together=True)
        yield from document(found)[1:]
        yield from lines(f"{A_STEP} Scores are geometric means over the cases that the runs compared share, in % of roof.")


def _case(machine: Machine, name: str) -> Iterator[Block]:
    if name in machine.by_case:
        yield from documents.case(machine, name)
        for drawn in figures(documents.over_time(machine, name), _key(machine), together=True):
            yield replace(drawn, title=f"{machine.title}: everybody over time; marks are steps")
        yield from documents.steps_of(machine, lambda cell, _: cell.case.id == name)


def _key(machine: Machine) -> str:
    return re.sub(r"\W+", "-", machine.title)


def _run(machine: Machine, at: int, own: Kept, names: Names, looks: Looks) -> Page:
    passport, cells = own.passport, {(entry.id, entry.implementation) for entry in own.entries}
    others = (run for run in machine.runs[:at][::-1] if any((e.id, e.implementation) in cells for e in run.entries))
    before = next(others, None)
    found = moves(before.entries, own.entries) if before else []
    drawn = forest.forest(found)
    facts = (machine.title, date(passport), f"driver {passport.device.get('driver', 'unknown')}", passport.commit)
    versions = " ".join(f"{short(name)} {short(version)}" for name, version in sorted(passport.packages.items()))
    blocks: list[Block] = [*lines(", ".join(short(fact, 60) for fact in facts if fact), versions)]
    blocks += [download(own.file)] if own.file else []
    if before and drawn.rows:
        title = f"{FOREST} ({short(before.passport.run_id, 60)})"
        blocks.append(panel("forest", title, forest_plot(drawn)))
    blocks += documents.run(own, before, found)
    return path("run", passport.run_id), sheet(short(passport.run_id, 60), blocks, names, looks)
