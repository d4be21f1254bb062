"""`softbench review`: which submissions of a folder are new, and which are not taken, by name."""

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from softbench.analysis.document import Dataset, Document, lines, table
from softbench.analysis.leaderboard.formatting import plural
from softbench.cli.command import FORMAT, Command, CommandResult, Options, argument, printed
from softbench.cli.submissions.folder import Fault, Submission, examine, is_plain
from softbench.texts import InputError, cut, printable

TAKEN = ("new", "known")


class Finding(NamedTuple):
    """What a review says of one submission; reason is empty if it is taken."""

    submission: str
    verdict: str
    reason: str


def _run(options: Options) -> CommandResult:
    known = [found for found in _examined(Path(options.known)) if isinstance(found, Submission)] if options.known else []
    findings = sorted(review(known, _examined(Path(options.folder))))
    is_bad = any(finding.verdict not in TAKEN for finding in findings)
    dataset = Dataset("submissions", Finding._fields, tuple(findings))
    return printed(options, _document(findings), [dataset]), int(is_bad)


def review(known: Iterable[Submission], examined: Iterable[Submission | Finding]) -> Iterator[Finding]:
    """The findings about a folder, given the submissions that were there before. Pure.

    Of two with the same samples the one that is known counts, else the one that started first.
    """
    before = {own.run_id: own for own in known}
    sound: list[Submission] = []
    named = set()
    for found in examined:
        named.add(found.run_id if isinstance(found, Submission) else found.submission)
        if isinstance(found, Finding):
            yield found
        else:
            sound.append(found)
    yield from (Finding(name, "refused", "was removed") for name in before.keys() - named)
    clocks = Counter(own.clock for own in before.values() or sound)
    owners = {sample: own.run_id for own in before.values() for sample in own.samples}
    for own in sorted(sound, key=lambda own: (own.started, own.run_id)):
        first = next((owners[sample] for sample in own.samples if owners.get(sample, own.run_id) != own.run_id), "")
        if (earlier := before.get(own.run_id)) is not None:
            is_same = earlier.digest == own.digest
            yield Finding(own.run_id, *(("known", "") if is_same else ("doubled", "another record of this id is known")))
        elif first:
            yield Finding(own.run_id, "doubled", f"has the same samples as {first}")
        elif own.clock != (clock := clocks.most_common(1)[0][0]):
            reason = f"is ranked by the clock {own.clock!r:.40}, the others by {clock!r:.40}"
            yield Finding(own.run_id, "not comparable", reason)
        else:
            owners |= dict.fromkeys(own.samples, own.run_id)
            yield Finding(own.run_id, "new", "")


def _examined(folder: Path) -> Iterator[Submission | Finding]:
    """Each folder in it that is not hidden; other files next to them are none of a submission's."""
    try:
        with os.scandir(folder) as listing:
            entries = sorted(listing, key=lambda entry: entry.name)
    except (OSError, ValueError) as error:
        raise InputError(f"{folder}: cannot be read ({getattr(error, 'strerror', error)})") from None
    for entry in entries:
        name = cut(printable(entry.name))
        if entry.is_symlink():
            yield Finding(name, "refused", "is a link")
        elif entry.is_dir() and entry.name[0] != ".":
            try:
                if not is_plain(entry.name):
                    raise Fault("refused", "is no id of a run")
                yield examine(folder / entry.name, entry.name)
            except Fault as fault:
                yield Finding(name, fault.verdict, cut(str(fault)))


def _document(findings: list[Finding]) -> Document:
    bad = sum(finding.verdict not in TAKEN for finding in findings)
    text = f"{plural(len(findings), 'submission')}; {f'{bad} cannot be taken' if bad else 'all can be taken'}."
    return [*lines(text), *table("", Finding._fields, findings, left=(0, 1, 2))]


COMMAND = Command(
    "review",
    "check the submissions of a folder: which are new, tampered, doubled or not comparable",
    (
        ("softbench review submissions", "exit code 1 if one cannot be taken"),
        ("softbench review submissions --known main/submissions", "which are new since those"),
    ),
    (
        argument("folder", metavar="FOLDER", help="folder of submissions"),
        argument("--known", metavar="FOLDER", help="the same folder as it was: those in it are known, and must stay"),
        FORMAT,
    ),
    _run,
)
