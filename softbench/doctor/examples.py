"""Bundled implementations that cheat or err; each must be caught with the word for what it does."""

from __future__ import annotations

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
from softbench.model import SEALED, WRONG_WHEN_TIMED, Case, Record, Status, Variant, stats
from softbench.model.limits import Limits

HERE = Path(__file__).parent
CHEATS, TWINS = HERE / "cheats", HERE / "twins"
GROUP = 8
"""Examples per contest: on a GPU each process takes half a gigabyte."""
OF_CPU = "not tried here: only for a machine without a GPU"
RULES = Rules(budget_s=0.5, timeout_s=60.0)
HONEST_SHARE = 0.9
"""Of the fastest honest twin's time: with half a second a case, and a few microseconds a launch."""
TIMED = f"^{WRONG_WHEN_TIMED}: "


@dataclass(frozen=True)
class Example:
    """An implementation of cheats/, the dtype of its case, and a pattern that the reason of its status INCORRECT matches.

    budget_s    measuring time; a cheat that begins late takes longer
    is_of_cpu   whether it cheats the harness of a machine without a GPU
    misleads    whether it deceives the process that it runs in: on a GPU nothing is judged there
    """

    name: str
    word: str
    dtype: str = "float32"
    budget_s: float = 0.5
    is_of_cpu: bool = False
    misleads: bool = False


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
    Example("tail_columns", r"^tail from column \d+ not written:"),
    Example("tail_rows", r"^tail from row \d+ not written:"),
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
    Example("copied_random_state", rf"{TIMED}row \d+, column", misleads=True),
    Example("wrong_from_the_third", f"{TIMED}every element is 0:", budget_s=4.0, misleads=True),
)


def outcomes(card: device.Gpu | None) -> dict[str, Record]:
    """The records of all examples by name, and those of the honest twins of each group by "twin number"."""
    outcome: dict[str, Record] = {}
    cheats = {v.implementation: v for v in registry.find([CHEATS])}
    twins = registry.find([TWINS])
    tried = [e for e in EXAMPLES if card is None or not e.is_of_cpu]
    limits = Limits.of(device.describe())
    with closing(WorkerPool("cpu" if card is None else "cuda")) as pool:
        for number, (rules, dtype, group) in enumerate(_groups(tried)):
            case = Case("softmax", (64, 1000) if card is None else (1024, 4000), dtype, dtype)
            contest = Contest(rules, pool, card, limits=limits)
            for record in contest.run(case, [*(cheats[e.name] for e in group), *twins]):
                name = record.variant.implementation
                outcome[name if name in cheats else f"{name} {number}"] = record
            for worker in pool.living:
                worker.end()
        for name in {e.name for e in EXAMPLES} - {e.name for e in tried}:
            outcome[name] = Record(case, cheats[name], Status.UNAVAILABLE, OF_CPU)
    return outcome


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
    for example in EXAMPLES:
        record = records[example.name]
        why = missed(example, record, list(records.values()))
        outcome = "missed" if why else "caught"
        if record.status is Status.UNAVAILABLE and (target.card is None or example.is_of_cpu):
            outcome = "not tried"
            not_tried += 1
            lines.append(f"{NOT_TRIED if target.card is None else OF_CPU}: {_described(record.variant)}")
        elif why:
            lines.append(f"MISSED: {_described(record.variant)}")
            failures.append(f"{example.name}: {why}")
        else:
            caught += 1
            lines += [f"caught: {_described(record.variant)}", f"        {_short(record.reason)}"]
        rows.append((example.name, outcome, record.status.value, record.reason))
    for name, record in records.items():
        if name.split()[0] not in {e.name for e in EXAMPLES} and record.status is not Status.PASSED:
            failures.append(f"{name}, which is honest: {record.status.value}: {record.reason}")
    tried = len(EXAMPLES) - not_tried
    trust = f"results: {caught} of {tried} cheats and mistakes were caught by their names"
    if not_tried:
        trust += f"; {not_tried} were not tried, since they {'need' if target.card is None else 'are not for'} a GPU"
    data = Dataset("cheats", ("implementation", "outcome", "status", "reason"), tuple(rows))
    return Findings("Cheats and mistakes", tuple(lines), tuple(failures), (trust,), (data,))


def missed(example: Example, record: Record, beside: Sequence[Record] = ()) -> str:
    """Why an example counts as missed; "" if it was caught by its word, or gained nothing.

    beside: all records, with those of honest twins: on a GPU, what deceives its own process may pass at its honest time.
    """
    if record.status is Status.INCORRECT and (re.search(example.word, record.reason) or (example.misleads and beside)):
        return ""
    if example.misleads and record.status is Status.PASSED and record.tier == SEALED:
        honest = [_ns(twin) for twin in beside if twin.variant.implementation.startswith("twin_")]
        gained = min(honest, default=math.inf) * HONEST_SHARE - _ns(record)
        return "" if gained <= 0 else f"not caught: {_ns(record):.0f} ns, and honest twins take {min(honest):.0f} ns"
    if record.status is Status.INCORRECT:
        return f"caught, but not by its name: {record.reason}"
    return f"not caught: {record.status.value}" + (f": {record.reason}" if record.reason else "")


def _ns(record: Record) -> float:
    return stats.per_launch_ns(record.clock("graph")[0])


def _described(variant: Variant) -> str:
    return f"{variant.implementation}: {variant.summary[:1].lower()}{variant.summary[1:].rstrip('.')}"


def _short(reason: str, limit: int = 110) -> str:
    return reason if len(reason) <= limit else f"{reason[: limit - 1]}…"
