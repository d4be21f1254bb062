"""The page of experiments: published figures next to records, and findings that hold, do not hold, or are open."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

import pytest
from support.builders import ended, run, softmax_case, stored, timed, two_clocks
from support.grids import over
from support.paths import ROOT

from softbench import resources
from softbench.analysis import experiments
from softbench.cases import matrix
from softbench.model import Record, Run, Status
from softbench.records import published, store
from softbench.records.published import PublishedError, PublishedTable
from softbench.render import export

FOLDER = ROOT / "reports" / "published"
PAGE = ROOT / "docs" / "experiments.md"
PUBLISHED = published.read(FOLDER)
SIZES = (1000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000)


def markdown(runs: list[Run], tables: Mapping[str, PublishedTable] = PUBLISHED) -> str:
    return export.document_markdown(experiments.document(runs, tables))


def row(elements: int, **changes):
    return softmax_case(1, elements, "float32", **changes)


def ranges(name: str, status: Status, reason: str = "") -> list[Record]:
    """A CUDA kernel that is right on [0, 10] and ends like this on [500, 1000]."""
    safe, large = (row(1000, distribution=f"uniform_{word}", timed=False) for word in ("0_10", "500_1000"))
    passed = timed(safe, name, 1, samples=())
    last = ended(large, name, status, reason) if reason else timed(large, name, 1, samples=())
    return [passed, last]


def stability(reason: str = "NaN where a number is expected: row 0") -> list[Record]:
    return [*ranges("cuda_naive", Status.INCORRECT, reason), *ranges("cuda_multi_pass", Status.PASSED)]


def sizes(**ns_an_element: float) -> list[Record]:
    """Implementations with a time of 2 us and a share in proportion to the size, and a copy as the roof."""
    return [
        timed(row(size), name, 2000 + size * ns, role="roof" if name == "copy" else "entrant")
        for size in SIZES
        for name, ns in ns_an_element.items()
    ]


def ladder(**us: float) -> list[Record]:
    """The rungs with a time each on one large matrix and 9 us a call on a small one, with torch eager and a copy."""
    large, small = softmax_case(32768, 4096, "float32"), softmax_case(16, 256, "float32")
    records = [timed(large, "copy", 100_000, role="roof"), timed(large, "torch_eager", 300_000)]
    for name, time in us.items():
        for case, ns, call_ns in ((large, time * 1000, 20_000), (small, 2000, 9000)):
            records.append(two_clocks(case, name, ns, call_ns))
    return records


def section(records: list[Record], name: str) -> str:
    page = markdown([run(records)])
    return page.partition(f"## {experiments.EXPERIMENTS[name].title}\n")[2].partition("\n## ")[0]


def found(records: list[Record], name: str) -> list[tuple[str, str]]:
    """(statement, verdict) of the findings of a section."""
    lines = [line for line in section(records, name).splitlines() if line.startswith("- ") and "**" in line]
    return [(line.split(" **")[0][2:], line.split("**")[1]) for line in lines]


HOLDS, NOT, OPEN = "Holds here", "Does not hold here", "Not decided here"


def test_stability_holds_where_only_the_naive_form_overflows():
    assert [verdict for _, verdict in found(stability(), "stability")] == [HOLDS, HOLDS, HOLDS]
    why = "INCORRECT: NaN where a number is expected: row 0"
    assert f"| cuda_naive | [500, 1000] | sum nan, NaN or Inf: yes | {why} |" in section(stability(), "stability")


NAIVE_IS_RIGHT = [*ranges("cuda_naive", Status.PASSED), *ranges("cuda_multi_pass", Status.PASSED)]


@over(
    ("records", "verdict"),
    [
        (stability("every element is 0: row 0"), NOT),  # another mistake is no overflow
        (NAIVE_IS_RIGHT, NOT),
        ([replace(record, known_failure="declared" * bool(record.reason)) for record in stability()], HOLDS),
    ],
)
def test_only_an_overflow_is_evidence_whether_it_was_declared_or_not(records, verdict):
    assert found(records, "stability")[1][1] == verdict


def test_what_did_not_run_decides_nothing():
    verdicts = [verdict for _, verdict in found(ranges("cuda_naive", Status.UNAVAILABLE, "no GPU")[1:], "stability")]
    assert verdicts == [OPEN, OPEN, OPEN]
    for name in ("overhead", "fusion", "triton"):
        assert {verdict for _, verdict in found(stability(), name)} == {OPEN}


@pytest.mark.parametrize(
    ("multi_pass", "verdicts"),
    [(1.75, [HOLDS, NOT]), (0.5, [NOT, NOT])],
    ids=["slower, but not by a fixed share", "faster"],
)
def test_overhead(multi_pass, verdicts):
    """2 us in front of both make the overhead of a small row small, where the published one is 54 to 93 % throughout."""
    records = sizes(cuda_naive=1.0, cuda_multi_pass=multi_pass)
    assert [verdict for _, verdict in found(records, "overhead")] == verdicts


def test_the_overhead_of_the_publication_holds():
    records = [
        timed(row(n), name, ns) for n in SIZES[:5] for name, ns in (("cuda_naive", 10_000), ("cuda_multi_pass", 17_500))
    ]
    assert [verdict for _, verdict in found(records, "overhead")] == [HOLDS, HOLDS]
    text = section(records, "overhead")
    assert "| 1,000 | 0.035 | 0.060 | +71 % | 0.0100 | 0.0175 | +75 % |" in text
    assert "(54 to 93" not in text
    assert "54 to 93 % more" in text


def fusion(**changes: float) -> list[tuple[str, str]]:
    """A copy at 1 ns an element, multi-pass at 2.2 (its traffic's floor is 2), fused at 1.7, the repairs near 1.6."""
    rates = {"copy": 1.0, "cuda_multi_pass": 2.2, "cuda_fused": 1.7, "cuda_fused_wide": 1.7, "cuda_fused_two": 1.65}
    return found(sizes(**{**rates, "cuda_cooperative": 1.3, **changes}), "fusion")


def test_fusion():
    assert [verdict for _, verdict in fusion()] == [HOLDS, NOT, HOLDS, HOLDS, HOLDS, HOLDS, HOLDS]
    slow = dict(fusion(cuda_multi_pass=2.9, cuda_cooperative=1.8, cuda_fused_two=1.8, cuda_fused_wide=1.8))
    assert slow["Multi-pass is no straw man: 10M within 1.3 times its own traffic."] == NOT
    assert slow["100M within 1.15 times two reads and a write."] == NOT
    assert slow["10M within 1.35 times a copy."] == NOT


def test_the_unrepaired_form_may_lose_at_the_largest_size_only():
    records = [r for r in sizes(copy=1.0, cuda_multi_pass=2.2, cuda_fused=1.7) if r.case.elements < 10**8]
    records += [timed(row(10**8), "cuda_multi_pass", 2.2e8), timed(row(10**8), "cuda_fused", 3.5e8)]
    verdicts = dict(found(records, "fusion"))
    assert verdicts["Fused beats multi-pass up to 10M elements."] == HOLDS
    assert verdicts["At 100M one block that merges all others makes it lose."] == HOLDS
    assert verdicts["A repaired form beats multi-pass at every size."] == OPEN
    assert "| 100,000,000 | 1.658 | 2.557 | 0.65x | " in section(records, "fusion")


def test_the_triton_plan():
    """Three passes at 0.75x of torch and a third of the roof; A at 1.5x and 50 %; the best at 2.86x and 95 %."""
    records = ladder(triton_three_pass=400, triton_single=200, triton_best=105)
    verdicts = dict(found(records, "triton"))
    assert verdicts == {
        "The plan's target can be reached: speed-up over torch eager 1.50x.": HOLDS,
        "The plan's stretch can be reached: speed-up over torch eager 3.00x.": NOT,
        "The plan's target can be reached: % of the roof 80.0 %.": HOLDS,
        "The plan's stretch can be reached: % of the roof 90.0 %.": HOLDS,
        "The plan's target can be reached: host time of a call 15.0 us.": HOLDS,
        "The plan's stretch can be reached: host time of a call 10.0 us.": HOLDS,
    }
    text = section(records, "triton")
    assert "| triton_single (A, one pass in registers) | 1.50x | 50.0 % | 9.0 us | 1 of 1 |" in text
    assert "| the plan: current | 0.66x | 59.0 % | 31.0 us |" in text
    assert "first by triton_single" in text
    assert "- triton_three_pass to triton_single: 2.00x over 1 matrices" in text
    assert "- triton_single to triton_wide: not measured" in text


def opened(records: list[Record], *names: str) -> list[Record]:
    """The records on a GPU, where those of some implementations could not be sealed."""
    return [replace(r, tier="open" if r.variant.implementation in names else "sealed") for r in records]


def test_an_open_time_beside_sealed_ones_is_shown_and_is_no_evidence():
    records = opened(sizes(copy=1.0, cuda_multi_pass=2.2, cuda_fused=1.7, cuda_cooperative=1.3), "cuda_multi_pass")
    verdicts = dict(found(records, "fusion"))
    assert verdicts["Fused beats multi-pass up to 10M elements."] == OPEN
    assert verdicts["Multi-pass is no straw man: 10M within 1.3 times its own traffic."] == OPEN
    assert verdicts["10M within 1.35 times a copy."] == HOLDS
    assert re.search(r"10,000,000 \|.* \| 22\.0\d\d\d open \| 17\.0\d\d\d \|", section(records, "fusion"))


def test_an_open_rung_reaches_nothing_of_the_plan():
    records = opened(ladder(triton_three_pass=400, triton_single=200, triton_best=105), "triton_best")
    verdicts = dict(found(records, "triton"))
    assert verdicts["The plan's target can be reached: % of the roof 80.0 %."] == NOT
    assert re.search(
        r"\| triton_best \(.*\) \| not measured \| not measured \| .* \| 0 of 1 \|", section(records, "triton")
    )


def test_of_two_runs_with_a_case_the_later_counts():
    early, late = (
        run([timed(row(1000), "cuda_naive", ns)], run_id=word) for word, ns in (("early", 9000), ("late", 4000))
    )
    page = markdown([early, late], PUBLISHED)
    assert "| 1,000 | 0.035 | 0.060 | +71 % | 0.0040 | not run |" in page
    assert page.index("`early`") < page.index("`late`")


def test_runs_of_something_else_make_no_page():
    with pytest.raises(PublishedError, match="nothing to compare"):
        markdown([run([timed(row(1000), "torch_eager", 9000)])], PUBLISHED)
    with pytest.raises(PublishedError, match=r"missing: triton\.csv"):
        markdown([run(stability())], {k: v for k, v in PUBLISHED.items() if k != "triton"})


def test_the_profiles_ask_what_was_published():
    """Every published size has its case, and every rung that the page names exists."""
    bundled = matrix.load(resources.bundled_shapes())
    for name in ("overhead", "fusion"):
        sizes = dict.fromkeys(entry["elements"] for entry in PUBLISHED[name].rows)
        assert [c.id for c in bundled.profile(f"experiment-{name}")] == [f"softmax-float32-1x{size}" for size in sizes]
    asked = {c.id for c in bundled.profile("experiment-stability")}
    assert asked == {f"softmax-float32-1x1000-{entry['distribution']}" for entry in PUBLISHED["stability"].rows}
    rungs = [row["implementation"] for row in PUBLISHED["experiments"].rows if row["part"] == "rung"]
    assert all(c.rows > 1 for c in bundled.profile("experiment-triton"))
    sources = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "impls" / "triton").glob("[a-z]*.py"))
    assert all(f"def {name}(case" in sources for name in rungs)
    shapes = dict.fromkeys((int(r["rows"]), int(r["columns"])) for r in PUBLISHED["h800"].rows)
    assert list(shapes) == [case.shape for case in bundled.profile("published")]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "x.csv:1: must begin with '# source: '"),
        ("# source: s\n# what: w\n# gpu: g\na\n1\n", "x.csv:2: must begin with '# gpu: '"),
        ("# source: s\n# gpu: g\n# what: w\na,b\n", "x.csv: has no rows"),
        ("# source: s\n# gpu: g\n# what: w\na,b\n1,2\n3\n", "x.csv:6: has another number of fields"),
        ("# source: s\n# gpu: g\n# what: w\na,b\n1,2,3\n", "x.csv:5: has another number of fields"),
    ],
)
def test_a_table_that_cannot_be_read_is_named(tmp_path, text, words):
    with pytest.raises(PublishedError, match="holds no published figures"):
        published.read(tmp_path)
    (tmp_path / "x.csv").write_text(text)
    with pytest.raises(PublishedError) as caught:
        published.read(tmp_path)
    assert words in str(caught.value)


def test_the_command_prints_the_page_or_writes_it_where_it_is_told(tmp_path, monkeypatch, says):
    """With the figures that come with softbench, wherever it is called; and it writes over nothing by itself."""
    monkeypatch.chdir(tmp_path)
    page = markdown([store.read(stored(tmp_path / "reports", run(stability(), run_id="run-1")))], PUBLISHED)
    assert says("experiments", "run-1") == page
    arguments = ("experiments", "run-1", "--published", FOLDER, "--output")
    assert says(*arguments, "page.md") == "page:    page.md\n"
    assert (tmp_path / "page.md").read_text(encoding="utf-8") == page
    assert "none/page.md: cannot be written" in says(*arguments, "none/page.md", status=2)
    wrong = says("experiments", "run-1", "--published", "elsewhere", status=2)
    assert "elsewhere: holds no published figures" in wrong


@pytest.mark.skipif(not PAGE.exists(), reason="no run of the experiments is committed yet")
def test_the_page_is_what_the_committed_records_say():
    text = PAGE.read_text(encoding="utf-8")
    ids = [line.split("`")[1] for line in text.partition("\n## ")[0].splitlines() if line.startswith("- `")]
    runs = [store.read(store.find(ROOT / "reports" / "h200", run_id)) for run_id in ids]
    assert text == markdown(runs, PUBLISHED)
