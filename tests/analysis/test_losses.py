"""Where an implementation loses, and why."""

from dataclasses import replace

from support import builders as make
from support.grids import over

from softbench.analysis.leaderboard.losses import losses
from softbench.model import KernelResources, Traffic

CASE = make.softmax_case()
PLAIN = {"kernels": (KernelResources("k", 40, 0, 0),), "traffic": Traffic(1_000, 1_000, 1, None, None, 0, 0, 0, 0)}


def lost(*records):
    board = make.board(records)
    return [(loss.case.case.id, round(loss.ratio.ratio, 1), loss.why) for loss in losses(board, "softmax", "mine")]


def test_the_largest_certain_loss_comes_first():
    cases = [make.softmax_case(columns=2**n) for n in (9, 10, 11, 12)]
    clear = [make.timed(cases[0], name, ns) for name, ns in (("mine", 6e4), ("best", 4e4))]
    vague = [make.timed(cases[1], name, ns, placements=2, spread=0.1) for name, ns in (("mine", 8e4), ("best", 4e4))]
    tied = [make.timed(cases[2], name, 4e4) for name in ("mine", "best")]
    found = lost(*vague, *clear, *tied, make.ended(cases[3], "mine"), make.timed(cases[3], "best", 4e4))
    assert found[0][:2] == (cases[0].id, 1.5)
    assert {case for case, *_ in found[1:]} <= {cases[1].id}


@over(
    "changed, said",
    [
        ({}, ""),
        ({"kernels": (KernelResources("k", 40, 152, 0),)}, "152 B of stack (spills)"),
        ({"kernels": (KernelResources("k", 255, 0, 0),)}, "255 registers allow 8 of 64 warps, best's 40 allow 48"),
        ({"kernels": (KernelResources("k", -5, 0, 0),)}, ""),  # of a damaged record
        ({"traffic": Traffic(2_000, 1_000, 1)}, "moves 1.50× the ideal bytes, best 1.00×"),
        (
            {"kernels": (KernelResources("k", 40, 152, 0),), "traffic": Traffic(5_000, 0, 1, None, None, 0, 0, 10**6, 0)},
            "spills: loads 32 MB from local memory, best 0 MB",
        ),
    ],
)
def test_a_planted_difference_is_named_and_nothing_else(changed, said):
    best = replace(make.timed(CASE, "best", 4e4, **PLAIN), ideal_bytes=2_000)
    mine = replace(make.timed(CASE, "mine", 6e4, **{**PLAIN, **changed}), ideal_bytes=2_000)
    ((_, _, why),) = lost(mine, best)
    assert "; ".join(why) == said
