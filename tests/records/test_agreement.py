"""Two runs of one GPU model agree, or it is said where not."""

from dataclasses import replace

import pytest
from support import agreement as subject
from support import builders as make
from support.children import python
from support.paths import KEPT

from softbench.records import store

CASES = [make.softmax_case(rows, 1024) for rows in range(4096, 4116)]


def run(ns=50_000, roof=40_000, **changed):
    records = []
    for number, case in enumerate(CASES):
        records.append(make.roof_of(case, roof, spread=0))
        records.append(make.timed(case, "a", changed.get(f"c{number}", ns), spread=0))
    return make.run(records)


def test_the_same_speed_against_the_roof_agrees_whatever_the_day_does_to_both():
    found = subject.agreement(run(), run(ns=55_000, roof=44_000))
    assert (len(found.ratios), found.share) == (20, 1.0)
    assert found.text().startswith("100.0% of 20 cells agree within 1% in % of roof (95% must); off by 0.00%")


@pytest.mark.parametrize(("far", "share"), [(1, 0.95), (2, 0.9)])
def test_what_is_further_apart_is_counted_and_named(far, share):
    slower = {f"c{number}": 50_000 * 1.011 for number in range(far)} | {"c19": 50_000 * 1.009}
    found = subject.agreement(run(), run(**slower))
    assert found.share == pytest.approx(share)
    assert f"{CASES[0].id} / a: -1.09%" in found.text()


def test_what_cannot_be_compared_is_left_out_and_counted():
    one, other = run(c0=15_000), run()
    records = list(other.records)
    records[3] = replace(records[3], variant=replace(records[3].variant, source_hash="1" * 8))
    records[5] = replace(records[5], samples=(replace(records[5].samples[0], cache="warm"),))
    found = subject.agreement(one, make.run(records[:-2]))
    assert len(found.ratios) == 16
    why = ("in one run only", "of another source or variant", "below 20 us", "with a warm L2")
    assert found.left_out == dict.fromkeys(why, 1)


def test_another_machine_or_clock_is_refused():
    for other in (
        make.run(run().records, device={**make.GPU, "name": "NVIDIA H100"}),
        replace(run(), passport=make.passport("wall")),
    ):
        with pytest.raises(ValueError, match="two machines or clocks"):
            subject.agreement(run(), other)


def test_a_committed_run_agrees_with_itself():
    path = max(path for path in KEPT if "-gpu." in path.name)
    found = subject.agreement(*[store.read(path)] * 2)
    assert len(found.ratios) > 100
    assert found.share == 1.0
    done = python(subject.__file__, path, path)
    assert done.stdout.strip() == found.text()
