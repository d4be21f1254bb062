"""Is an output right? The operator says what is expected; this module compares, and names the first bad element.

The whole output is compared, on its own device, with float64 values computed there; some rows once more with values
computed on the CPU. Cases that are not timed are compared on the CPU where they are small enough.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from softbench.check import canary
from softbench.model import Case
from softbench.operators import Expected, Invariant, get
from softbench.operators.inputs import BLOCK_ELEMENTS, damage, same_bits, share, take_rows

if TYPE_CHECKING:
    from torch import Tensor

Rows: TypeAlias = "slice | Tensor"  # a slice with both ends, or int64 indices
CPU_ELEMENTS = 2**26  # a case that is not timed is compared on the CPU up to here: a second or two


@dataclass(frozen=True)
class Verdict:
    """Whether an output is right; where it is not, why, in one line."""

    ok: bool
    reason: str = ""


def compare(case: Case, inputs: tuple[Tensor, ...], outputs: Any, *, exact_rows: int = 16, seed: int = 0) -> Verdict:
    """Hold outputs (what a launch returned: a tensor or a tuple of them) against the operator's definition.

    inputs      as from `Operator.make_inputs`, and not modified since
    exact_rows  rows that are computed once more on the CPU, where the rest is computed on the inputs' device
    seed        which rows these are

    takes up to about 500 MB on the device beside the tensors.
    """
    import torch

    returned = outputs if isinstance(outputs, tuple) else (outputs,)
    reason = _structure(case, inputs, returned)
    if reason or case.elements == 0:
        return Verdict(not reason, reason)
    on_cpu = not case.timed and case.elements <= CPU_ELEMENTS
    device = "cpu" if on_cpu else str(returned[0].device)
    step = max(1, BLOCK_ELEMENTS // case.columns)
    everything: list[Rows] = [slice(i, min(i + step, case.rows)) for i in range(0, case.rows, step)]
    with torch.no_grad():
        reason = _judge(case, inputs, returned, everything, device)
        if not reason and device != "cpu":
            count = min(exact_rows, case.rows, max(1, CPU_ELEMENTS // case.columns))
            chosen = torch.randint(case.rows, (count,), generator=torch.Generator().manual_seed(seed))
            reason = _judge(case, inputs, returned, list(chosen.split(step)), "cpu")
            reason = reason and f"{reason} (of {count} random rows computed on the CPU)"
    return Verdict(not reason, reason)


def check(case: Case, launch: Callable[..., Any], device: str, seed: int = 0) -> Verdict:
    """Run a launch twice, in the same buffers with different values, and judge all that it did.

    Both outputs must be right, the first must survive the second launch, and no byte of the inputs' storage may
    change. On CUDA the bytes after an output must not change either, where torch's allocator lets this be judged.
    What the launch raises is raised.
    """
    import torch

    inputs = get(case.operator).make_inputs(case, device, seed)
    first, reason = _launch(case, launch, inputs, device)
    verdict = _verdict(case, inputs, first, reason, seed)
    if not verdict.ok or case.elements == 0:
        return verdict
    kept = first if isinstance(first, tuple) else (first,)
    values = tuple(y.clone() for y in kept)
    get(case.operator).refill(case, inputs, seed + 1)
    second, reason = _launch(case, launch, inputs, device)
    again = second if isinstance(second, tuple) else (second,)
    if any(isinstance(y, torch.Tensor) and share(x, y) for x in kept for y in again):
        return Verdict(False, "one static buffer: the second launch returned the memory of the first launch's output")
    if not all(same_bits(x, y) for x, y in zip(kept, values, strict=True)):
        return Verdict(False, "one static buffer: the first launch's output changed when the launch ran again")
    verdict = _verdict(case, inputs, second, reason, seed + 1)
    if not verdict.ok and len(values) == len(again) and all(map(same_bits, values, again)):
        return Verdict(False, f"the last launch's output was returned for new inputs: {verdict.reason}")
    return verdict


def _verdict(case: Case, inputs: tuple[Tensor, ...], outputs: Any, reason: str, seed: int) -> Verdict:
    """`reason`, or damage to the inputs, which were drawn with this seed, or else what `compare` says."""
    if reason:
        return Verdict(False, reason)
    # drawn again instead of kept: a copy would be held while the launch needs the memory
    pristine = get(case.operator).make_inputs(case, str(inputs[0].device), seed)
    faults = [damage(x, original) for x, original in zip(inputs, pristine, strict=True)]
    del pristine
    reason = _first(faults, "input")
    return Verdict(False, reason) if reason else compare(case, inputs, outputs, seed=seed)


def _structure(case: Case, inputs: tuple[Tensor, ...], outputs: tuple[Any, ...]) -> str:
    """What is wrong with the outputs before their values are looked at; "" where nothing is."""
    specs = get(case.operator).output_specs(case)
    if len(outputs) != len(specs):
        return f"{len(outputs)} outputs were returned where {len(specs)} are expected"
    faults = [spec.fault(y, inputs) for y, spec in zip(outputs, specs, strict=True)]
    return _first(faults, "output")


def _first(faults: Sequence[str], what: str) -> str:
    """The first fault that is none of "", with its number where there could be several."""
    return next((f"{what} {i}: {text}" if len(faults) > 1 else text for i, text in enumerate(faults) if text), "")


def _compared(
    case: Case, inputs: tuple[Tensor, ...], outputs: tuple[Tensor, ...], rows: Rows, device: str
) -> Iterator[tuple[Expected, Tensor, Tensor]]:
    """Blocks of some rows: what is expected, what is there (float64), and which elements are wrong (bool)."""
    taken = [take_rows(y, case.rows, rows).to(device) for y in outputs]
    for expected in get(case.operator).expected(case, inputs, rows, device):
        values, first = expected.values, expected.first_column
        got = taken[expected.output][:, first : first + values.shape[1]].double()
        right = ((got - values).abs_() <= expected.allowed).logical_or_(got == values)  # an infinity equals itself
        yield expected, got, right.logical_or_(values.isnan() & got.isnan()).logical_not_()


def _judge(case: Case, inputs: tuple[Tensor, ...], outputs: tuple[Tensor, ...], chunks: list[Rows], device: str) -> str:
    """Compare all chunks of rows without waiting for the device in between; "" where all is right."""
    import torch

    operator = get(case.operator)
    wrong: list[Tensor] = []
    totals: dict[int, Invariant] = {}
    violated: list[Tensor] = []
    for rows in chunks:
        sums: dict[int, Invariant] = {}
        count = torch.zeros((), dtype=torch.int64, device=device)
        for expected, got, bad in _compared(case, inputs, outputs, rows, device):
            count += bad.sum()
            _add(sums, expected.output, operator.invariants(case, expected, got))
        wrong.append(count)
        violated.append(sum((s.violated.sum() for s in sums.values()), torch.zeros_like(count)))
        for output, invariant in sums.items():
            _add(totals, output, invariant.total())
    for counts, describe in ((wrong, _describe), (violated, _describe_invariant)):
        numbers = torch.stack(counts).tolist()
        first = next((i for i, n in enumerate(numbers) if n), None)
        if first is not None:
            return describe(case, inputs, outputs, chunks[first], device, sum(numbers))
    return next(filter(None, (total.bias(case.rows) for total in totals.values())), "")


def _add(sums: dict[int, Invariant], output: int, invariant: Invariant | None) -> None:
    if invariant is not None:
        sums[output] = sums[output].plus(invariant) if output in sums else invariant


def _describe_invariant(
    case: Case, inputs: tuple[Tensor, ...], outputs: tuple[Tensor, ...], rows: Rows, device: str, count: int
) -> str:
    """The first row of the chunk whose invariant does not hold, though all its elements are within their bounds."""
    sums: dict[int, Invariant] = {}
    for expected, got, _ in _compared(case, inputs, outputs, rows, device):
        _add(sums, expected.output, get(case.operator).invariants(case, expected, got))
    found = next(s for s in sums.values() if bool(s.violated.any()))
    at = int(found.violated.nonzero()[0])
    return f"{found.name}s off: row {_row(rows, at)} has {found.fault(at)}; {count} of {case.rows} rows wrong"


def _row(rows: Rows, at: int) -> int:
    return rows.start + at if isinstance(rows, slice) else int(rows[at])


def _describe(
    case: Case, inputs: tuple[Tensor, ...], outputs: tuple[Tensor, ...], rows: Rows, device: str, count: int
) -> str:
    """The first wrong element of the chunk, and what kind of mistake the output looks like."""
    blocks = _compared(case, inputs, outputs, rows, device)
    expected, got, bad = next(block for block in blocks if bool(block[2].any()))
    at, column = bad.nonzero()[0].tolist()
    value, right, allowed = (float(block[at, column]) for block in (got, expected.values, expected.allowed))
    output = outputs[expected.output]
    digits = ".6g" if f"{value:.6g}" != f"{right:.6g}" else ".12g"
    text = (
        f"row {_row(rows, at)}, column {expected.first_column + column}: got {value:{digits}}, expected {right:{digits}} "
        f"(allowed +-{allowed:.2g}); {count} of {sum(y.numel() for y in outputs)} elements wrong"
    )
    invariant = get(case.operator).invariants(case, expected, got)
    if invariant is not None and got.shape[1] == case.columns and bool(invariant.violated[at]):
        text += f"; {invariant.name} {float(invariant.got[at]):.6g}"
    kind = _kind(output, value, right) or _tail(bad, expected.first_column)
    prefix = f"output {expected.output}" if len(outputs) > 1 else ""
    return ": ".join(filter(None, (prefix, kind, text)))


def _kind(output: Tensor, value: float, right: float) -> str:
    if math.isnan(value):
        return "NaN where a number is expected"
    if math.isnan(right):
        return "a number where NaN is expected"
    if int(output.count_nonzero()) == 0:
        return "every element is 0"
    if output.numel() > 1 and bool((output == output[(0,) * output.dim()]).all()):
        same = math.isclose(value * output.shape[-1], 1, rel_tol=0.01)
        return "every element is 1/N" if same else f"every element is {value:.6g}"
    return ""


def _tail(bad: Tensor, first_column: int) -> str:
    """Whether the wrong elements are all elements from some column on; stale memory may be right by chance."""
    columns = bad.any(0).nonzero()
    start = int(columns[0])
    rows = bad[bad.any(1), start:]
    if first_column + start == 0 or float(rows.double().mean()) < 0.95:
        return ""
    return f"tail from column {first_column + start} not written"


def _launch(case: Case, launch: Callable[..., Any], inputs: tuple[Tensor, ...], device: str) -> tuple[Any, str]:
    """The outputs, and what was written after the end of those that took the place of a canary."""
    import torch

    specs = get(case.operator).output_specs(case)
    planted = canary.plant(specs, device) if torch.device(device).type == "cuda" else None
    outputs = launch(*inputs)
    return outputs, planted.overrun(outputs) if planted is not None else ""
