"""Two runs of one GPU model agree, or it is said where not."""

import re
from dataclasses import replace

import pytest
from support import agreement as subject
from support import builders as make
from support.children import python
from support.grids import over
from support.paths import KEPT

CASES = [make.softmax_case(rows, 1024) for rows in range(4096, 4116)]


def run(ns=50_000, roof=40_000, **changed):
    records = []
    for number, case in enumerate(CASES):
        records += [make.roof_of(case, roof, spread=0), make.timed(case, "a", changed.get(f"c{number}", ns), spread=0)]
    return make.run(records)


def said(*runs):
    return subject.text(subject.compared(*runs))


def test_the_same_speed_against_the_roof_agrees_whatever_the_day_does_to_both():
    found = said(run(), run(ns=55_000, roof=44_000))
    assert found.startswith("100.0% of 20 cells agree within 1% in % of roof (95% must); off by 0.00%")


@over("far, share", [(1, "95.0%"), (2, "90.0%")])
def test_what_is_further_apart_is_counted_and_named(far, share):
    slower = {f"c{number}": 50_000 * 1.011 for number in range(far)} | {"c19": 50_000 * 1.009}
    found = said(run(), run(**slower))
    assert found.startswith(f"{share} of 20 cells")
    assert f"{CASES[0].id} / a: -1.09%" in found


def test_what_cannot_be_compared_is_left_out_and_counted():
    one, other = run(c0=15_000), run()
    records = list(other.records)
    records[3] = replace(records[3], variant=replace(records[3].variant, source_hash="1" * 8))
    records[5] = replace(records[5], samples=(replace(records[5].samples[0], cache="warm"),))
    found = said(one, make.run(records[:-2]))
    assert "% of 16 cells" in found
    for why in ("in one run only", "of another source or variant", "below 20 us", "with a warm L2"):
        assert f"left out: 1 {why}" in found


def test_another_machine_or_clock_is_refused():
    for other in (
        make.run(run().records, device={**make.GPU, "name": "NVIDIA H100"}),
        replace(run(), passport=make.passport("wall")),
    ):
        with pytest.raises(ValueError, match="two machines or clocks"):
            subject.compared(run(), other)


def test_a_committed_run_agrees_with_itself():
    path = max(path for path in KEPT if "-gpu." in path.name)
    done = python(subject.__file__, path, path)
    assert re.match(r"100\.0% of \d{3} cells agree", done.stdout)
