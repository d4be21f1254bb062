"""Where an implementation loses, and why."""

from dataclasses import replace

from support.builders import board, ended, softmax_case, timed
from support.grids import over

from softbench.analysis.leaderboard.losses import losses
from softbench.model import KernelResources, Traffic

CASE = softmax_case()


def kernel(registers, stack):
    return {"kernels": (KernelResources("k", registers, stack, 0),)}


PLAIN = {**kernel(40, 0), "traffic": Traffic(1_000, 1_000, 1, None, None, 0, 0, 0, 0)}


def lost(*records):
    found = losses(board(records), "softmax", "mine")
    return [(loss.case.case.id, round(loss.ratio.ratio, 1), loss.why) for loss in found]


def test_the_largest_certain_loss_comes_first():
    cases = [softmax_case(columns=2**n) for n in (9, 10, 11, 12)]
    clear = [timed(cases[0], name, ns) for name, ns in (("mine", 6e4), ("best", 4e4))]
    vague = [timed(cases[1], name, ns, placements=2, spread=0.1) for name, ns in (("mine", 8e4), ("best", 4e4))]
    tied = [timed(cases[2], name, 4e4) for name in ("mine", "best")]
    found = lost(*vague, *clear, *tied, ended(cases[3], "mine"), timed(cases[3], "best", 4e4))
    assert found[0][:2] == (cases[0].id, 1.5)
    assert {case for case, *_ in found[1:]} <= {cases[1].id}


@over(
    "changed, said",
    [
        ({}, ""),
        (kernel(40, 152), "152 B of stack (spills)"),
        (kernel(255, 0), "255 registers allow 8 of 64 warps, best's 40 allow 48"),
        (kernel(-5, 0), ""),  # of a damaged record
        ({"traffic": Traffic(2_000, 1_000, 1)}, "moves 1.50× the ideal bytes, best 1.00×"),
        (
            {**kernel(40, 152), "traffic": Traffic(5_000, 0, 1, None, None, 0, 0, 10**6, 0)},
            "spills: loads 32 MB from local memory, best 0 MB",
        ),
    ],
)
def test_a_planted_difference_is_named_and_nothing_else(changed, said):
    best = replace(timed(CASE, "best", 4e4, **PLAIN), ideal_bytes=2_000)
    mine = replace(timed(CASE, "mine", 6e4, **{**PLAIN, **changed}), ideal_bytes=2_000)
    ((_, _, why),) = lost(mine, best)
    assert "; ".join(why) == said
