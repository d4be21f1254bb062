"""One variant in one case, from which a `Record` is made at the end."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Protocol

from softbench import texts
from softbench.cases import environments, operators
from softbench.measure import device
from softbench.measure.contest.processes import Worker
from softbench.measure.contest.workers import Answer
from softbench.measure.plans import Plan
from softbench.measure.worker import traces
from softbench.model import OPEN, SEALED, Accuracy, Case, KernelResources, Record, Samples, Status, Telemetry, Traffic, Variant
from softbench.model.tiers import outranked


@dataclass(eq=False)
class Entrant:
    """role: "entrant", "roof" or "reference". mode: how its worker runs it (see `mode_of`).

    is_lost: the forkserver has ended, or does not answer.
    tier: "sealed", "open" (`open_because` says why), or "" if that is not known yet: docs/measuring.md, "Sealed and open".
    handed_over: the file that `author` wrote and a referee runs.
    has_lost_referee: a referee was killed before it had an answer, and another one was asked.
    digest: of the handed-over file when it was checked.
    """

    variant: Variant
    role: str
    slot: int = 0
    mode: str = "measure"
    status: Status | None = None
    reason: str = ""
    worker: Worker | None = None
    prepared_in: Worker | None = None
    author: Worker | None = None
    tier: str = ""
    open_because: str = ""
    handed_over: str = ""
    has_lost_referee: bool = False
    digest: str = ""
    is_baseline: bool = False
    traceback: tuple[str, ...] = ()
    output: tuple[str, ...] = ()
    samples: list[Samples] = field(default_factory=list)
    telemetry: list[Telemetry] = field(default_factory=list)
    kernels: list[KernelResources] = field(default_factory=list)
    traffic: Traffic | None = None
    accuracy: Accuracy | None = None
    notes: list[str] = field(default_factory=list)
    own_plan: Plan | None = None
    best_of: int = 1
    is_best: bool = True
    is_lost: bool = False
    seconds: float = 0.0

    @property
    def is_open(self) -> bool:
        """Nothing has gone wrong so far."""
        return self.status is None

    @property
    def is_ready(self) -> bool:
        return self.is_open and self.prepared_in is not None and self.prepared_in.is_alive

    @property
    def always_in_heats(self) -> bool:
        return self.role in ("roof", "reference") or self.is_baseline

    def plan(self, common: Plan) -> Plan:
        """How its samples are taken: by the common plan, unless it has its own (on a CPU, by its speed)."""
        return self.own_plan or common

    def settle(self, status: Status, reason: str) -> None:
        """Close the cell; samples of a cell that did not pass are not kept, nor errors of a failure."""
        self.status, self.reason = status, texts.cut(reason)
        if status is not Status.PASSED:
            self.samples.clear()
        if not status.is_success:
            self.accuracy = None

    def reopen(self) -> None:
        """Take a cell that passed back into its contest; it has to be prepared again."""
        if self.status is Status.PASSED:
            self.status, self.prepared_in = None, None

    def leave(self, heat: int) -> None:
        """Keep nothing of a heat that will be measured again."""
        self.samples = [samples for samples in self.samples if samples.heat != heat]
        self.notes.append(f"heat {heat}: measured again in smaller heats, as the roof or the reference ran out of memory")

    def take(self, answer: Answer) -> bool:
        """Whether the answer is good; if not, the cell is closed with its status and reason."""
        if not answer.ok:
            self.settle(answer.status, answer.reason)
            if answer.status.is_failure:
                self._keep_output(answer)
        return answer.ok

    def _keep_output(self, answer: Answer) -> None:
        """Keep where it failed and what it printed; the reason of a crash says where as well."""
        folder = Path(self.variant.path).resolve().parent
        self.output, crash = traces.split(answer.output, [folder])
        is_late = answer.status is Status.TIMEOUT
        self.traceback = traces.bounded(answer.traceback, [folder]) or (crash[1:] if is_late else crash)
        place = traces.crash_place(crash, folder.name)
        if place and is_late:
            self.reason = f"{self.reason}; it was in {place}"
        elif place:
            how, separator, words = self.reason.partition("; its last words: ")
            self.reason = f"{how} in {place}{separator}{words}"

    def hand_over(self, found: dict[str, Any]) -> None:
        """Take an author's answer: sealed from now on, or open."""
        self.author, self.handed_over = self.worker, found.get("path", "")
        self.open_because = "" if self.handed_over else found.get("open_because", "") or "it was not handed over"
        self.tier = SEALED if self.handed_over else OPEN

    def sealed_file(self) -> dict[str, str]:
        """What a message says of the hand-over that was checked."""
        return {"handed_over": self.handed_over, "digest": self.digest}

    def at_author(self) -> Entrant:
        """The same entrant in its author's process."""
        if self.tier != SEALED:
            return self
        found = copy(self)
        found.worker, found.tier = self.author, ""
        return found

    def take_kernels(self, answer: Answer) -> bool:
        """`take` for an answer to "compile", whose kernels are kept."""
        if self.take(answer):
            self.kernels = list(answer.data["kernels"])
        return self.is_open

    def request(self, operation: str, case: Case | None = None, **more: Any) -> dict[str, Any]:
        """A message to this entrant's worker; with a case it also says what to build."""
        base: dict[str, Any] = {"op": operation, "slot": self.slot, "role": self.role}
        if case is not None:
            variant = self.variant
            base |= {"case": asdict(case), "path": variant.path, "name": variant.declared_name, **operator_of(case.operator)}
            base |= {"source_hash": variant.source_hash, "params": dict(variant.params)}
        return base | more

    def answer(self, ask: Ask, operation: str, **more: Any) -> Answer:
        """What its worker answers to one request."""
        return ask({self: self.request(operation, **more)})[self]

    def placing(self, common: Plan, rng: random.Random) -> dict[str, Any]:
        """A request for new buffers, with newly drawn inputs."""
        return self.request("place", plan=asdict(self.plan(common)), seed=rng.getrandbits(40))

    def record(self, case: Case, ideal_bytes: int, ideal_flops: int, reproduce: str) -> Record:
        if self.status is None:
            raise ValueError(f"{case.id} / {self.variant.id} is not settled")
        declared = operators.of_file(case.operator)
        return Record(
            case=case,
            variant=self.variant,
            status=self.status,
            reason=self.reason,
            reproduce="" if self.status is Status.PASSED else reproduce,
            samples=tuple(self.samples),
            kernels=tuple(self.kernels),
            telemetry=tuple(self.telemetry),
            traffic=self.traffic,
            accuracy=self.accuracy,
            notes=tuple(self.notes),
            ideal_bytes=ideal_bytes,
            ideal_flops=ideal_flops,
            role=self.role,
            known_failure=known_failure(case, self.variant),
            best_of=self.best_of,
            traceback=self.traceback,
            output=self.output,
            tier=self.tier,
            open_because=texts.cut(self.open_because),
            operator_hash=declared.source_hash if declared else "",
        )


def contenders(times: Mapping[Entrant, float]) -> dict[Entrant, float]:
    """The times by which one can lead: not the roof's, and no open one beside the sealed one of an "entrant"."""
    known = {e: e.tier or SEALED * bool(e.handed_over) for e in times}  # "" while a sealed one is built again
    behind = outranked([tier for e, tier in known.items() if e.role == "entrant"])
    return {e: ns for e, ns in times.items() if e.role != "roof" and known[e] not in behind}


def operator_of(name: str) -> dict[str, Any]:
    """What a message to a worker says of an operator: where its file is, if it is a file's."""
    declared = operators.of_file(name)
    if declared is None:
        return {}
    return {"operator": {"path": str(declared.path), "source_hash": declared.source_hash}}


Fault = Callable[[Sequence[Samples]], str]
"""Why samples are impossible; "" if they are not."""
Ask = Callable[[dict[Entrant, dict[str, object]]], dict[Entrant, Answer]]
"""Requests to several entrants' workers, and the answers."""


class Tell(Protocol):
    """How the parts of a contest report what they are doing. Never called while a turn is timed."""

    def __call__(self, stage: str, step: str = "", *, amid_rounds: bool = False) -> None: ...


def silent(stage: str, step: str = "", *, amid_rounds: bool = False) -> None:
    """Reports nothing."""


def known_failure(case: Case, variant: Variant) -> str:
    """The declared reason why this variant fails on this case, or ""."""
    return next((k.reason for k in variant.known_failures if fnmatchcase(case.id, k.pattern)), "")


def mode_of(variant: Variant, card: device.Gpu | None) -> tuple[str, str]:
    """How a variant runs on this machine; "" if it cannot, and why.

    "measure" runs and times it. Without a GPU a variant that requires triton is run in its interpreter ("interpret"), and another
    one that needs a GPU is built for sm_90a ("compile") if it yields cubins.
    """
    needs_gpu = [r for r in variant.requires if r.split(">")[0].strip() == "cuda"]
    others = [r for r in variant.requires if r not in needs_gpu]
    other = environments.of(variant.interpreter) if variant.interpreter else None
    path, there = (other.path, f" in the environment {other.name}") if other else (None, "")
    reasons = [f"{why}{there}" for r in others if (why := device.missing(r, card, path))]
    gpu_reasons = [why for r in needs_gpu if (why := device.missing(r, card))]
    if reasons or (card is not None and gpu_reasons):
        return "", "; ".join(gpu_reasons + reasons)
    if card is None and any(r.split(">")[0].strip() == "triton" for r in others):
        return "interpret", ""
    if not gpu_reasons:
        return "measure", ""
    return ("compile", "") if variant.has_cubins else ("", gpu_reasons[0])
