"""Parts of a board with a ranking of their own: the timed cases of an operator, of a dtype, of a regime."""

from dataclasses import dataclass

from softbench.analysis.leaderboard import Board, CaseBoard, Standing
from softbench.analysis.leaderboard.formatting import dtype_text
from softbench.analysis.leaderboard.regimes import REGIMES, regime
from softbench.analysis.leaderboard.score import ranking
from softbench.analysis.leaderboard.tiers import scored_of


@dataclass(frozen=True)
class Slice:
    """Timed cases of one operator and the standings over them."""

    operator: str
    title: str
    cases: tuple[CaseBoard, ...]
    standings: tuple[Standing, ...]

    def standing(self, implementation: str) -> Standing | None:
        return next((row for row in self.standings if row.implementation == implementation), None)


def slices(board: Board, operator: str) -> tuple[Slice, ...]:
    """The timed cases of an operator that count, then by dtype, then by regime; a kind with only one part is left out."""
    timed = tuple(scored_of(board, operator))
    failed = {(s.operator, s.implementation): s.failed_hard for s in board.standings(operator)}
    dtypes: dict[str, list[CaseBoard]] = {}
    for case in timed:
        dtypes.setdefault(dtype_text(case.case.dtype, case.case.out_dtype), []).append(case)
    parts = [("all", timed)]
    by_dtype = [(name, tuple(cases)) for name, cases in dtypes.items()]
    by_regime = [(kind.name, tuple(c for c in timed if regime(c) is kind)) for kind in REGIMES]
    for group in (by_dtype, [part for part in by_regime if part[1]]):
        parts += group if len(group) > 1 else []
    return tuple(Slice(operator, title, cases, ranking(cases, failed)) for title, cases in parts)
