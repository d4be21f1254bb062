from dataclasses import replace

from support.builders import CASE, ended, run, softmax_case, timed
from support.grids import over

from softbench.analysis.compare import versions
from softbench.model import Samples, Status


def pairs(*records):
    return versions.pairs(run(records))


def cell(name, **changes):
    return timed(CASE, name, 1e4, **changes)


def paired(ratio):
    old = tuple(tuple(1_000_000 + 1000 * ((p * 7 + r) % 5) for r in range(4)) for p in range(8))
    new = tuple(tuple(round(ns * ratio) + (p % 3) * 500 for ns in rounds) for p, rounds in enumerate(old))
    return pairs(*(cell(n, samples=(Samples("graph", 20, ns, "cold", 0),)) for n, ns in (("mine", new), ("mine@v1", old))))


@over("ratio, verdict, fails", [(1.0, "same", False), (1.03, "slower", True), (1.012, "slower", False), (0.97, "faster", False)])
def test_verdicts_and_a_limit_of_2_percent(ratio, verdict, fails):
    (pair,) = paired(ratio)
    assert (pair.verdict, pair.fails(0.02)) == (verdict, fails)
    assert abs(pair.change.ratio - ratio) < 0.002
    assert versions.gate([pair], 0.02).startswith("fails: 0 cells fell, 1 cell slower" if fails else "holds: of 1 pair ")
    vague = replace(pair, change=replace(pair.change, verdict="unknown", high=1.1))
    assert versions.gate([vague], 0.02).endswith("; 1 pair cannot be told")


def test_who_is_paired_with_whom():
    found = pairs(*map(cell, ("mine", "mine@v1", "other", "gone@v1")), timed(softmax_case(8), "mine@v1", 1e4))
    assert [(p.new.variant.id, p.old.variant.id) for p in found] == [("mine", "mine@v1")]


def test_versions_that_choose_other_parameters_are_compared():
    """The trial of each chooses for itself; what was not chosen has no time in the heats."""

    def of(name, width, **changes):
        plain = cell(name)
        return replace(plain, variant=replace(plain.variant, params=(("w", width),)), **changes)

    new, old = of("mine", 2), of("mine@v1", 1)
    left = of("mine", 1, samples=()), of("mine@v1", 2, samples=())
    (pair,) = pairs(new, left[0], old, left[1])
    assert (pair.new, pair.old) == (new, old)
    assert pair.change is not None
    fell = replace(left[0], status=Status.INCORRECT, reason="every element is 0")
    assert [p.verdict for p in pairs(new, fell, old, left[1])] == [pair.verdict, "PASSED -> INCORRECT"]


def test_times_of_different_heats_are_not_compared():
    (pair,) = pairs(cell("mine", heat=0), cell("mine@v1", heat=1))
    assert (pair.change, pair.verdict, pair.fails(0.0)) == (None, "", False)


@over(
    "now, then, verdict, fails",
    [
        (Status.INCORRECT, Status.PASSED, "PASSED -> INCORRECT", True),
        (Status.CRASHED, Status.CRASHED, "", False),
        (Status.PASSED, Status.INCORRECT, "INCORRECT -> PASSED", False),
        (Status.UNSUPPORTED, Status.PASSED, "PASSED -> UNSUPPORTED", False),
    ],
)
def test_statuses(now, then, verdict, fails):
    def of(name, status):
        return cell(name) if status is Status.PASSED else ended(CASE, name, status, "why")

    (pair,) = pairs(of("mine", now), of("mine@v1", then))
    assert (pair.verdict, pair.fails(0.5)) == (verdict, fails)
