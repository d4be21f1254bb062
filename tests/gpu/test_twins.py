"""What does not fit together runs in heats."""

import pytest
from contests import BUNDLED, TWINS, named
from support.builders import softmax_case

from softbench.model import Status

pytestmark = pytest.mark.gpu


def test_what_does_not_fit_together_runs_in_heats_with_the_baseline_in_each(pool):
    """17 GB move at a launch: two placements of four entrants are more than a card of 141 GB holds."""
    baseline = next(v for v in BUNDLED if v.implementation == "torch_eager")
    case = softmax_case(1 << 19, 8192)
    records = named(pool, case, list(TWINS.values()), 5.0, baselines={"softmax": baseline}, seed=3)
    assert {r.status for r in records.values()} == {Status.PASSED}
    heats = {name: {s.heat for s in r.clock("graph")} for name, r in records.items()}
    assert len(heats["torch_eager"]) >= 2
    assert set().union(*(heats[name] for name in TWINS)) == heats["torch_eager"]
    assert all(len(heats[name]) == 1 for name in TWINS)
