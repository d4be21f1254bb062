"""What a contest is doing, for display while it runs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from softbench.measure.contest.entrant import Entrant, contenders
from softbench.measure.contest.rounds import Heat
from softbench.model import OPEN, Case, stats


@dataclass(frozen=True)
class Player:
    """An entrant as it is displayed. latency_ns is its median per launch so far, None before its first sample.

    state: "waiting", "checked", "undecided" while its rank in the heat is open, "decided", "measured" after its heat, else its
    status; "open" for a time that is not sealed where another one is, and "" for the roof: neither has a rank.
    """

    name: str
    role: str
    state: str
    latency_ns: float | None = None
    percent_of_roof: float | None = None


@dataclass(frozen=True)
class Progress:
    """What is going on (stage), and how far it is (step).

    players      computes the standings so far from the medians of all samples: call it only to display them
    amid_rounds  a turn that counts comes next, and a pause before it may show in its time
    """

    stage: str
    case: Case | None = None
    step: str = ""
    players: Callable[[], Sequence[Player]] = tuple
    amid_rounds: bool = False

    def __str__(self) -> str:
        what = f"{self.stage}, {self.step}" if self.step else self.stage
        return f"{self.case.id}: {what}" if self.case else what


@dataclass
class CaseView:
    """One case as it is displayed; heat is the one that is running. Without arguments nothing is displayed."""

    case: Case | None = None
    entrants: Sequence[Entrant] = ()
    show: Callable[[Progress], None] = lambda progress: None
    heat: Heat | None = None

    def tell(self, stage: str, step: str = "", *, amid_rounds: bool = False) -> None:
        self.show(Progress(stage, self.case, step, self.players, amid_rounds))

    def players(self) -> list[Player]:
        """The chosen ones: the fastest first, then those that cannot lead, then those without a time."""
        times = self._times()
        right = {e: ns for e, (ns, _) in times.items() if e.status is None or e.status.is_success}
        behind = {e for e in times if e.role != "roof"} - contenders(right).keys()
        seen = [e for e in self.entrants if e.is_best and (e.role != "roof" or e in times)]
        seen.sort(key=lambda e: (e not in times, e in behind, times.get(e, (0.0, None))[0], not e.is_open))
        states = [OPEN if e in right and e in behind and e.role == "entrant" else self._state(e, e in times) for e in seen]
        return [Player(e.variant.id, e.role, s, *times.get(e, (None, None))) for e, s in zip(seen, states, strict=True)]

    def _times(self) -> dict[Entrant, tuple[float, float | None]]:
        """(ns per launch, % of the roof of the same heat) of all entrants with a sample, by the last heat of each."""
        heats: dict[int, dict[Entrant, float]] = {}
        for entrant in self.entrants:
            for samples in entrant.samples:
                if samples.clock in ("graph", "wall"):
                    heats.setdefault(samples.heat, {})[entrant] = stats.per_launch_ns(samples)
        if self.heat is not None:
            heats[self.heat.number] = self.heat.speeds()
        found: dict[Entrant, tuple[float, float | None]] = {}
        for _, speeds in sorted(heats.items()):
            roof = min((ns for e, ns in speeds.items() if e.role == "roof"), default=None)
            found |= {e: (ns, 100 * roof / ns if roof else None) for e, ns in speeds.items()}
        return found

    def _state(self, entrant: Entrant, is_timed: bool) -> str:
        if entrant.status is not None:
            return entrant.status.value
        if entrant.role == "roof":
            return ""
        if self.heat is not None and entrant in self.heat.entrants and is_timed:
            return "undecided" if entrant in self.heat.racing else "decided"
        return "measured" if is_timed else "checked" if entrant.is_ready else "waiting"
