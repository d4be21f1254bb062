"""`softbench bisect`: the first commit at which an implementation became slower, or wrong."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from softbench import resources
from softbench.analysis import bisect
from softbench.analysis.bisect import BAD, GOOD, OPEN, Contest, Question, Step
from softbench.analysis.document import Dataset
from softbench.analysis.leaderboard.formatting import plural, short
from softbench.cli import measuring
from softbench.cli.command import CASES, FORMAT, Command, CommandResult, Options, argument, limit, printed
from softbench.texts import InputError

if TYPE_CHECKING:
    from softbench.cases.revisions import Commit

MORE = 4
"""How many times the budget a contest gets that could not be told."""
COLUMNS = (*("implementation", "case", "question", "limit_ratio", "good", "bad", "found", "commits"), *("subject", "author", "day"))


@dataclass
class _Search:
    """The commits between two revisions at which the sources of an implementation changed, oldest first; the last one is bad.

    sources   the hash of its sources at a commit -> what was found there
    budget_s  of a case in the first run, seconds
    """

    kernel: str
    folder: Path
    good: Commit
    options: tuple[str, ...]
    commits: tuple[Commit, ...]
    say: Callable[[str], None]
    steps: list[Step] = field(default_factory=list)
    sources: dict[str, str] = field(default_factory=dict)
    budget_s: float = 0.0

    def contests(self, new: Commit, old: Commit, cases: Sequence[str], budget_s: float = 0.0) -> list[Contest]:
        """The contests of two commits on these cases. Raises RunRefused if one of them cannot be run."""
        names = [f"{self.kernel}@{commit.short}" for commit in (new, old)]
        shapes = resources.shapes_of(Path.cwd())
        run = measuring.measure(
            [
                *self.options,
                *(f"--softbench-against=git:{commit.id}" for commit in (new, old)),
                *([f"--softbench-budget={budget_s:g}"] if budget_s else []),
                *(f"{shapes}::{case}::{name}" for case in cases for name in names),
            ]
        )
        self.budget_s = self.budget_s or float(run.passport.settings["budget_s"])
        return bisect.contests(run, *names)

    def further(self, contest: Contest, new: Commit, old: Commit) -> Contest:
        """A contest that could not be told, with that of another run that takes MORE times as long."""
        later = self.contests(new, old, [contest.case], MORE * self.budget_s)
        return contest.and_more(later[0]) if later else contest

    def add(self, commit: Commit, old: Commit, contest: Contest, verdict: str) -> Step:
        self.steps.append(Step(commit.id, commit.subject, old.id, old.name, contest, verdict))
        self.say(self.steps[-1].sentence)
        return self.steps[-1]

    def look(self, commit: Commit, old: Commit, asked: Question) -> str:
        """Compare a commit with another one, with more time if it cannot be told, and note the step."""
        try:
            found = self.contests(commit, old, [asked.case])
            contest = found[0] if found else Contest(asked.case, reason="no cell of both")
            if asked.may_be_told(contest):
                self.say(f"{commit.short} {OPEN}; once more with {MORE} times the budget")
                contest = self.further(contest, commit, old)
        except measuring.RunRefused as why:
            contest = Contest(asked.case, reason=str(why))
        return self.add(commit, old, contest, asked.verdict(contest)).verdict

    def narrow(self, asked: Question) -> list[Commit]:
        """The commits one of which is the first bad one: one, if all that lie between could be told."""
        verdicts = [""] * (len(self.commits) - 1) + [BAD]
        while (index := bisect.following(verdicts)) is not None:
            verdicts[index] = self._verdict(self.commits[index], asked)
        return [self.commits[index] for index in bisect.left(verdicts)]

    def _verdict(self, commit: Commit, asked: Question) -> str:
        try:
            source = _source(self.kernel, commit, self.folder)[0]
        except InputError as why:
            return self.add(commit, self.good, Contest(asked.case, reason=str(why)), OPEN).verdict
        if source not in self.sources:
            self.sources[source] = self.look(commit, self.good, asked)
        else:
            self.say(f"{commit.short} has sources that were run: {self.sources[source]}")
        return self.sources[source]


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _source(kernel: str, commit: Commit, folder: Path) -> tuple[str, str]:
    """The hash of an implementation's sources at a commit, and its folder below the given one. Raises InputError."""
    from softbench.cases import revisions  # imports the operators, which other commands do not need

    place, variants = revisions.at(commit, folder)
    known = {variant.implementation: variant for variant in variants}
    if kernel not in known:
        raise InputError(f"no implementation {kernel!r:.60} at {commit.name}; {resources.choose_from(kernel, known)}")
    path = Path(known[kernel].path).parent
    return known[kernel].source_hash, path.relative_to(place.resolve()).as_posix()


def _search(options: Options) -> _Search:
    """What is to be searched. Raises InputError if there is nothing."""
    from softbench.cases import operator_files, revisions  # see above

    operator_files.load(operator_files.beside(Path()))
    folder = Path(options.impls) if options.impls else resources.bundled_impls()
    try:
        good, bad = (revisions.commit(name, folder) for name in (options.good, options.bad))
    except revisions.RevisionError as error:
        raise InputError(str(error) if options.impls else f"{error}; --impls names a folder of your own") from None
    if not revisions.changes(good, bad, folder):
        raise InputError(f"no commit after {good.name} up to {bad.name} changed {resources.shown(folder)}")
    (new, there), (old, before) = (_source(options.kernel, commit, folder) for commit in (bad, good))
    commits = revisions.changes(good, bad, folder, sorted({there, before}))
    if new == old or not commits:
        raise InputError(f"the sources of {options.kernel} are the same at {good.name} and {bad.name}")
    given = [("impls", options.impls), ("profile", options.profile), ("budget", options.budget)]
    chosen = [("reports", options.reports), *((name, value) for name, value in given if value)]
    passed = (f"--softbench-seed={secrets.randbits(32)}", *(f"--softbench-{name}={value}" for name, value in chosen))
    is_silent = options.format in ("csv", "json")  # for programs, which read the steps from the output
    say = (lambda text: None) if is_silent else _say
    return _Search(options.kernel, folder, good, passed, commits, say, sources={old: GOOD, new: BAD})


def _cases(search: _Search, patterns: str) -> list[str]:
    """The cases in which the implementation takes part, or those of them that match a pattern. Raises InputError."""
    versions = [f"--softbench-against=git:{commit.id}" for commit in (search.good, search.commits[-1])]
    found = measuring.cells([*search.options, *versions, "-k", search.kernel])
    wanted = f"{search.kernel}@{search.commits[-1].short}"
    cases = list(dict.fromkeys(case for case, name in found if name.partition("[")[0] == wanted))
    kept = [case for case in cases if not patterns or any(fnmatchcase(case, own) for own in patterns.split(","))]
    if not kept:
        there = f"one of {plural(len(cases), 'case')} is {cases[0]}" if cases else "choose another --profile"
        raise InputError(f"no case of {search.kernel} is selected; {there}")
    return kept


def _asked(search: _Search, cases: Sequence[str], least: float | None) -> Question | None:
    """The question, by a contest of the two revisions; None if it cannot be told. Raises InputError if nothing got worse."""
    bad, good = search.commits[-1], search.good
    found = search.contests(bad, good, cases)
    asked = bisect.question(found, least)
    if asked is None and any(bisect.is_open(contest, least) for contest in found):
        search.say(f"{bad.short} {OPEN}; once more with {MORE} times the budget")
        found = [search.further(c, bad, good) if bisect.is_open(c, least) else c for c in found]
        asked = bisect.question(found, least)
    shown = next((c for c in found if asked and c.case == asked.case), None) or bisect.worst(found, least)
    if shown is None:
        raise InputError(f"{search.kernel} passes no case at {good.name}; name a good revision, or other --cases")
    if asked or bisect.is_open(shown, least):
        search.add(bad, good, shown, BAD if asked else OPEN)
        return asked
    step = Step(bad.id, "", good.id, good.name, shown, GOOD)
    raise InputError(f"{search.kernel} did not get worse: {step.sentence.rpartition(':')[0]} in {shown.case}")


def _result(search: _Search, asked: Question | None, left: Sequence[Commit]) -> list[str]:
    kernel, first = search.kernel, search.steps[0]
    if asked is None:
        case = first.contest.case
        return [f"Whether {kernel} got slower cannot be told: {first.finding} in {case}. A longer --budget may tell."]
    did = f"made {kernel} slower" if asked.limit else f"broke {kernel}"
    whole = f"The last of {plural(len(search.commits), 'commit')} that changed its sources: {first.finding}."
    if len(left) > 1:
        listed = (f"  {commit.short} {short(commit.subject)}" for commit in left)
        return [f"One of {len(left)} commits {did} in {asked.case}; the others cannot be told:", *listed, whole]
    found = left[0]
    own = next((step for step in reversed(search.steps) if step.commit == found.id), first)
    texts = [f"{found.short} {did} in {asked.case}: {own.finding}."]
    if own.verdict != BAD:
        texts = [f"{found.short} is the first that is slower in {asked.case}, but another contest does not confirm it:"]
        texts += [f"{own.finding}. The loss may be noise, or that of several commits; a longer --budget may tell."]
    texts += [f"  {short(found.subject, 100)} ({short(found.author)}, {found.day})"]
    texts += [whole] if found is not search.commits[-1] else []
    return texts + ([f"{plural(asked.others, 'further case')} got worse; --cases chooses."] if asked.others else [])


def _is_confirmed(search: _Search, asked: Question, found: Commit) -> bool:
    """Whether one more contest calls the commit slower than the one before it. A wrong output needs none."""
    before = (search.good, *search.commits)[search.commits.index(found)]
    return asked.limit is None or search.look(found, before, Question(asked.case, 1.0)) == BAD


def _run(options: Options) -> CommandResult:
    least = limit("--by", options.by, "1%")
    search = _search(options)
    what = f"{plural(len(search.commits), 'commit')} changed the sources of {search.kernel}"
    search.say(f"{what} after {search.good.name}")
    asked = _asked(search, _cases(search, options.cases or ""), None if least is None else 1 + least)
    left = search.narrow(asked) if asked else list(search.commits)
    is_found = asked is not None and len(left) == 1 and _is_confirmed(search, asked, left[0])
    why = "" if asked is None else "slower" if asked.limit else "wrong"
    case, ratio = (asked.case, asked.limit) if asked else (search.steps[0].contest.case, None)
    one = (left[0].subject, left[0].author, left[0].day) if is_found else ("", "", "")
    ends = (search.good.id, search.commits[-1].id)
    row = (search.kernel, case, why, ratio, *ends, is_found, tuple(commit.id for commit in left), *one)
    document = bisect.document(_result(search, asked, left), search.steps)
    data = bisect.datasets(search.steps, Dataset("result", COLUMNS, (row,)))
    return printed(options, document, data), int(not is_found)


COMMAND = Command(
    "bisect",
    "find the first commit at which an implementation became slower, or wrong",
    (
        ("softbench bisect v1 HEAD -k my_softmax --impls kernels", "of your own folder"),
        ("softbench bisect v1 HEAD -k cute_softmax --cases '*-float16-4096x*'", "in some cases"),
        ("softbench bisect v1 HEAD -k my_softmax --impls kernels --by 1%", "a loss of 1 % or more"),
    ),
    (
        argument("good", metavar="GOOD", help="a revision of git at which it is right and fast"),
        argument("bad", metavar="BAD", help="a later one at which it is not"),
        argument("-k", dest="kernel", metavar="KERNEL", required=True, help="name of the implementation"),
        argument("--impls", metavar="DIR", help="folder of implementation files (default: the bundled one)"),
        CASES,
        argument("--profile", metavar="NAMES", help="profiles of shapes.yaml, as for pytest --softbench"),
        argument("--budget", metavar="S", help="seconds per case of a contest, as for pytest --softbench"),
        argument("--by", metavar="PERCENT", help="what counts as slower: 1%% (default: half of what BAD lost)"),
        argument("--reports", metavar="DIR", default="reports/bisect", help="folder for the runs (default: %(default)s)"),
        FORMAT,
    ),
    _run,
)
