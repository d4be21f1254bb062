"""Bundled implementations that cheat or err; each must be caught with the word for what it does."""

import math
import re
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from softbench.analysis.document import Dataset
from softbench.cases import registry
from softbench.doctor.findings import NOT_TRIED, Findings, Target
from softbench.measure import device
from softbench.measure.contest.contest import Contest
from softbench.measure.contest.measuring import Rules
from softbench.measure.contest.worker_pool import WorkerPool
from softbench.measure.worker import confining
from softbench.model import SEALED, WRONG_WHEN_TIMED, Case, Record, Status, Variant, stats
from softbench.model.limits import Limits
from softbench.texts import cut

HERE = Path(__file__).parent
CHEATS, TWINS = HERE / "cheats", HERE / "twins"
GROUP = 8
"""Examples per contest: on a GPU each process takes half a gigabyte."""
OF_CPU = "not tried here: only for a machine without a GPU"
UNCONFINED = "not tried here: writes are not confined"
RULES = Rules(budget_s=0.5, timeout_s=60.0)
HONEST_SHARE = 0.9
"""Of the fastest honest twin's time: with half a second a case, and a few microseconds a launch."""
NO_FASTER = "passed, sealed, and no faster than an honest kernel"
TIMED = f"^{WRONG_WHEN_TIMED}: "
FORGED = "^its sealed copy failed: .*"
OTHER_WORK = f"{FORGED}times the work of the one that is checked"
ENDS = (Status.INCORRECT, Status.RUNTIME_ERROR, Status.PASSED)
"""How a cheat may end whose word is told: a pass has a reason if it is open, and then leads nothing."""


@dataclass(frozen=True)
class Example:
    """An implementation of cheats/, the dtype of its case, and a pattern that the reason of its status, or of being open, matches.

    budget_s     measuring time; a cheat that begins late takes longer
    is_of_cpu    whether it cheats the harness of a machine without a GPU
    is_confined  whether only what confines its process prevents it
    misleads     whether it deceives the process that it runs in: on a GPU nothing is judged there
    honest       how the names of those begin whose time is its honest one
    """

    name: str
    word: str
    dtype: str = "float32"
    budget_s: float = 0.5
    is_of_cpu: bool = False
    is_confined: bool = False
    misleads: bool = False
    honest: str = "twin_"


EXAMPLES = (
    Example("zeros", "^every element is 0:"),
    Example("one_over_n", "^every element is 1/N:"),
    Example("last_output", "^the last launch's output was returned for new inputs:"),
    Example("cached_by_pointer", "^cached by pointer,"),
    Example("cached_by_shape", "^cached by shape,"),
    Example("cached_by_sample", "^cached by a part of the input:"),
    Example("other_stream", "^work on another stream"),
    Example("left_lazy", "^left lazy: a Later,"),
    Example("lying_class", "^left lazy: a Tensor,"),
    Example("mode_left_on", "^a mode was left on:", misleads=True),
    Example("left_to_a_thread", "^left unfinished:|^work on another stream:"),
    Example("input_overwritten", "^the input was overwritten:"),
    Example("view_of_input", "^the output is a view of the input's memory"),
    Example("static_buffer", "^one static buffer:"),
    Example("wrong_dtype", "^wrong dtype:"),
    Example("wrong_shape", "^wrong shape:"),
    Example("wrong_strides", "^wrong strides:"),
    Example("low_precision", r"^low precision: row \d+, column"),
    Example("low_precision_sum", "^low precision: row sums off:", "bfloat16"),
    Example("tail_columns", r"^wrong from column \d+ on:"),
    Example("tail_rows", r"^wrong from row \d+ on:"),
    Example("out_of_bounds", "^wrote past the end of the output:"),
    Example("nondeterministic", "^nondeterministic,"),
    Example("patched_clock", r"^patched: time\.perf_counter_ns was replaced by the end of the import$"),
    Example("patched_event", "^impossible: ", misleads=True),
    Example("precomputed_at_import", "^precomputed, the output is the same for other inputs:"),
    Example("precomputed_in_factory", "^precomputed: one element of the input had changed", misleads=True),
    Example("counts_its_calls", f"{TIMED}every element is 0:", misleads=True),
    Example("cached_when_timed", rf"{TIMED}row \d+, column", misleads=True),
    Example("static_when_timed", f"{TIMED}one static buffer:", misleads=True),
    Example("inspects_its_callers", rf"{TIMED}row \d+, column", misleads=True),
    Example("escapes_the_graph", f"{TIMED}NaN where|^impossible:", misleads=True),
    # How far its thread came decides what the unfinished output looks like.
    Example("back_to_back_to_a_thread", TIMED, is_of_cpu=True),
    Example("patched_clock_object", f"{TIMED}patched: a clock of the harness was replaced", is_of_cpu=True),
    Example("patched_event_later", "^impossible: ", misleads=True),
    Example("l2_set_aside", "^impossible: ", misleads=True),
    Example("writes_what_changed", f"{TIMED}NaN where", misleads=True, honest="writes_all"),
    Example("simplifies_its_input", f"{TIMED}the input was overwritten$"),
    Example("forged_grid", OTHER_WORK),
    Example("forged_code", OTHER_WORK),
    Example("forged_address", f"{FORGED}an output outside of its memory"),
    Example("forged_count", f"{FORGED}a grid of "),
    Example("forged_size", f"{FORGED}memory at 0x"),
    Example("files_of_others", "^factory raised PermissionError: ", is_confined=True),
    Example("copied_random_state", rf"{TIMED}row \d+, column", misleads=True),
    Example("wrong_from_the_third", f"{TIMED}every element is 0:", budget_s=4.0, misleads=True),
)


def outcomes(card: device.Gpu | None) -> dict[str, Record]:
    """The records of all examples by name, and those of the honest of each group by name and number."""
    outcome: dict[str, Record] = {}
    cheats = {v.implementation: v for v in registry.find([CHEATS])}
    twins = registry.find([TWINS])
    tried = [e for e in EXAMPLES if not _untried(e, card)]
    limits = Limits.of(device.describe())
    with closing(WorkerPool("cpu" if card is None else "cuda")) as pool:
        for number, (rules, dtype, group) in enumerate(_groups(tried)):
            case = Case("softmax", (64, 1000) if card is None else (1024, 4000), dtype, dtype)
            contest = Contest(rules, pool, card, limits=limits)
            names = [e.name for e in group]
            beside = [cheats[e.honest] for e in group if card is not None and e.honest in cheats]
            for record in contest.run(case, [*(cheats[name] for name in names), *beside, *twins]):
                name = record.variant.implementation
                outcome[name if name in names else f"{name} {number}"] = record
            for worker in pool.living:
                worker.end()
        for example in EXAMPLES:
            if why := _untried(example, card):
                outcome[example.name] = Record(case, cheats[example.name], Status.UNAVAILABLE, why)
    return outcome


def _untried(example: Example, card: device.Gpu | None) -> str:
    """Why an example is not run on this machine; "" if it is."""
    if example.is_confined and (how := confining.possible()["writes"]) != "yes":
        return f"{UNCONFINED}: {how}"
    return OF_CPU if example.is_of_cpu and card is not None else ""


def _groups(examples: Sequence[Example]) -> Iterator[tuple[Rules, str, list[Example]]]:
    """Examples of one contest, with its rules and dtype."""
    for dtype, budget_s in dict.fromkeys((e.dtype, e.budget_s) for e in examples):
        mine = [e for e in examples if (e.dtype, e.budget_s) == (dtype, budget_s)]
        yield from ((replace(RULES, budget_s=budget_s), dtype, mine[i : i + GROUP]) for i in range(0, len(mine), GROUP))


def look(target: Target) -> Findings:
    """Run all examples with an honest implementation; a missed cheat, or an accused honest one, is a failure."""
    target.progress(f"{len(EXAMPLES)} examples of cheats and mistakes")
    records = outcomes(target.card)
    lines, failures, rows = [], [], []
    caught = not_tried = 0
    loose = ""
    for example in EXAMPLES:
        record = records[example.name]
        told = _described(record.variant)
        why = missed(example, record, list(records.values()))
        outcome = "missed" if why else "caught"
        why_not = _untried(example, target.card) or (NOT_TRIED if target.card is None else "")
        if record.status is Status.UNAVAILABLE and why_not:
            outcome = "not tried"
            not_tried += not example.is_confined
            loose = why_not if example.is_confined else loose
            lines.append(f"{why_not}: {told}")
        elif why:
            lines.append(f"MISSED: {told}")
            failures.append(f"{example.name}: {why}")
        else:
            caught += 1
            lines += [f"caught: {told}", f"        {cut(_said(record) or NO_FASTER, 110)}"]
        rows.append((example.name, outcome, record.status.value, _said(record)))
    for name, record in records.items():
        if name.split()[0] not in {e.name for e in EXAMPLES} and record.status is not Status.PASSED:
            failures.append(f"{name}, which is honest: {record.status.value}: {record.reason}")
    tried = len(EXAMPLES) - not_tried - bool(loose)
    trust = f"results: {caught} of {tried} cheats and mistakes were caught by their names"
    if not_tried:
        trust += f"; {not_tried} were not tried, since they {'need' if target.card is None else 'are not for'} a GPU"
    files = f"files: an implementation could change records and sources here; {loose}" if loose else ""
    data = Dataset("cheats", ("implementation", "outcome", "status", "reason"), tuple(rows))
    return Findings("Cheats and mistakes", tuple(lines), tuple(failures), tuple(filter(None, (trust, files))), (data,))


def missed(example: Example, record: Record, beside: Sequence[Record] = ()) -> str:
    """Why an example counts as missed; "" if it was caught by its word, or gained nothing.

    beside: all records, with those of honest twins: on a GPU, what deceives its own process may pass at its honest time.
    """
    if record.status in ENDS and re.search(example.word, _said(record)):
        return ""
    if record.status is Status.INCORRECT and example.misleads and beside:
        return ""
    if example.misleads and record.status is Status.PASSED and record.tier == SEALED:
        named = [other for other in beside if other.variant.implementation.startswith(example.honest)]
        honest = min((_ns(other) for other in named if other.clock("graph")), default=math.inf)
        gained = honest * HONEST_SHARE - _ns(record)
        return "" if gained <= 0 else f"not caught: {_ns(record):.0f} ns, and honest kernels take {honest:.0f} ns"
    if record.status is Status.INCORRECT:
        return f"caught, but not by its name: {record.reason}"
    return f"not caught: {record.status.value}" + (f": {_said(record)}" if _said(record) else "")


def _said(record: Record) -> str:
    return record.reason or record.open_because


def _ns(record: Record) -> float:
    return stats.per_launch_ns(record.clock("graph")[0])


def _described(variant: Variant) -> str:
    return f"{variant.implementation}: {variant.summary[:1].lower()}{variant.summary[1:].rstrip('.')}"
