"""A random search over all of our kernels on a GPU: seeds of the system's randomness, printed, and none may be wrong.

SOFTBENCH_SEARCH_CASES (20000), _SECONDS (360), _WORKERS, _SEED and _LOG, a file that takes every question's outcome at once.
"""

import pytest
from support import searching
from support.paths import ROOT

pytestmark = pytest.mark.gpu
IMPLS = ROOT / "impls"
OURS = tuple(IMPLS / family for family in ("cute", "cuda", "triton"))


@pytest.mark.usefixtures("some_gpu")
def test_none_of_our_kernels_is_wrong_on_any_drawn_case():
    found, asked, seed = searching.from_environment(OURS, "cuda")
    again = f"SOFTBENCH_SEARCH_SEED={seed} repeats the search"
    assert not found.wrong, f"{again}; the first of {len(found.wrong)}: {found.wrong[0]}"
    assert found.cases >= asked, f"only {found.cases} of {asked} cases were run in the time given; {again}"
