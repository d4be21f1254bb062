"""Claims of others against runs, as a document and as data. Pure: files and runs in, parts of a document out."""

from collections.abc import Iterator, Sequence

from softbench.analysis import leaderboard
from softbench.analysis.claims.verdicts import Verdict, verdict
from softbench.analysis.document import Dataset, Document, Heading, Lines, Part, Table
from softbench.analysis.leaderboard import CaseBoard, Cell
from softbench.analysis.leaderboard import datasets as board_datasets
from softbench.model import OPEN, Run, Status
from softbench.records.claims import FIGURES, ClaimFile
from softbench.texts import InputError

__all__ = ["datasets", "document"]


def document(runs: Sequence[Run], files: Sequence[ClaimFile]) -> Document:
    """Per file what it claims, whether that holds in these runs, and its own figures beside those of the runs.

    Where several runs have a case, the last one counts. Raises InputError for runs that have no case of any claim.
    """
    cases = _cases(runs)
    verdicts = _verdicts(cases, files)
    parts: list[Part] = [Heading("Claims", level=1), *_origin(runs)]
    for own in files:
        parts += [Heading(own.title), Lines((f"Claimed by: {own.source}; GPU: {own.gpu}; {own.what}.",), markdown=True)]
        parts += [Lines(tuple(line for found in verdicts[own.name] for line in _lines(found)), markdown=True)]
        parts += _figures(own, cases)
    return parts


def datasets(runs: Sequence[Run], files: Sequence[ClaimFile]) -> Iterator[Dataset]:
    """The verdicts, and the cells of the runs that they are about. Raises as `document` does."""
    cases = _cases(runs)
    found = [(own.title, v) for own in files for v in _verdicts(cases, files)[own.name]]
    columns = (
        "source",
        "statement",
        "verdict",
        "measured",
        "measure",
        "value",
        "low",
        "high",
        "least",
        "most",
        "would_hold",
    )
    rows = tuple(
        (
            title,
            c.statement,
            v.word,
            v.measured,
            c.measure,
            v.value,
            v.low,
            v.high,
            c.least,
            c.most,
            "; ".join(v.remedies),
        )
        for title, v in found
        for c in [v.claim]
    )
    yield Dataset("claims", columns, rows)
    names = {name for _, v in found for name in (*v.claim.who, v.claim.than)}
    yield board_datasets.cells(c for case in cases for name, c in case.by_implementation.items() if name in names)


def _cases(runs: Sequence[Run]) -> tuple[CaseBoard, ...]:
    """The cases of all runs, each once: the later run counts."""
    return tuple({case.case.id: case for run in runs for case in leaderboard.build(run).cases}.values())


def _verdicts(cases: Sequence[CaseBoard], files: Sequence[ClaimFile]) -> dict[str, list[Verdict]]:
    found = {own.name: [verdict(claim, cases) for claim in own.claims] for own in files}
    if not any(v.measured or v.holds is not None for own in found.values() for v in own):
        raise InputError("these runs have no case and implementation of any claim: nothing to hold against them")
    return found


def _lines(found: Verdict) -> Iterator[str]:
    words = f"**{found.word.capitalize()}**" + (f": {found.measured}" if found.measured else "")
    yield f"- {found.claim.statement} {words}{_asked(found)}."
    for remedy in found.remedies:
        yield f"  - It would hold {remedy}."


def _asked(found: Verdict) -> str:
    """The bounds behind a figure."""
    claim = found.claim
    if claim.measure not in FIGURES or found.holds is True:
        return ""
    form = FIGURES[claim.measure]
    bounds = [f"{word} {form.format(at)}" for word, at in (("at least", claim.least), ("at most", claim.most)) if at]
    return f"; claimed: {' and '.join(bounds)}"


def _figures(own: ClaimFile, cases: Sequence[CaseBoard]) -> list[Part]:
    """The source's figures beside those of the runs, and the times of all whom its claims name."""
    names = list(dict.fromkeys(n for claim in own.claims for n in (claim.than, *claim.who) if n))
    by_id = {case.case.id: case for case in cases}
    told = list(dict.fromkeys(name for row in own.figures.values() for name in row))
    here = [n for n in names if any(n in by_id[i].by_implementation for i in own.figures if i in by_id)]
    rows = tuple(
        (case_id, *(row.get(name, "") for name in told), *(_cell(by_id.get(case_id), name) for name in here))
        for case_id, row in own.figures.items()
    )
    header = ("case", *(f"{name}, claimed" for name in told), *(f"{name}, here" for name in here))
    return [Table(header, rows)] if rows else []


def _cell(case: CaseBoard | None, name: str) -> str:
    """Milliseconds, with a mark if the time is open and not ranked; else the status and its reason."""
    cell: Cell | None = case.by_implementation.get(name) if case else None
    if cell is None:
        return "not run"
    if cell.latency_ns is not None:
        return f"{cell.latency_ns / 1e6:.4f} ms" + f" {OPEN}" * cell.is_open
    return "right" if cell.status is Status.PASSED else f"{cell.status.value}: {cell.record.reason}".rstrip(": ")


def _origin(runs: Sequence[Run]) -> list[Part]:
    lines = []
    for run in runs:
        passport, gpu = run.passport, run.passport.device
        what = f"{gpu.get('name', 'unknown')}, driver {gpu.get('driver', 'unknown')}"
        lines.append(f"- `{passport.run_id}`: {what}, {passport.started[:10]}, clock `{passport.ranking_clock}`")
    head = (
        "Made by `softbench claims` from these runs; times are those of the ranking clock unless a line says otherwise:"
    )
    return [Lines((head,), markdown=True), Lines(tuple(lines), markdown=True)]
