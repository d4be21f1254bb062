"""The standings of the running contest, redrawn in place by rich, which nothing else imports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import IO, TYPE_CHECKING

from softbench.analysis.leaderboard.formatting import milliseconds, short
from softbench.measure.contest.progress import Player
from softbench.model import OPEN
from softbench.texts import printable

if TYPE_CHECKING:
    from rich.text import Text

_HEADER = "implementation"
_BESIDE = 38
"""Columns for the figures, right of a name."""
_AROUND = 5
"""Lines without a player: two of words, the header, the count of those not shown, the cursor's."""
_STYLES = {"undecided": "yellow", "checked": "", "": ""} | dict.fromkeys((OPEN, "waiting", "UNSUPPORTED", "UNAVAILABLE"), "dim")
_STYLES |= dict.fromkeys(("decided", "measured", "PASSED", "CHECKED", "COMPILED"), "green")
"""By state; any other state is a failure."""


class LiveBoard:
    """A part of the terminal that is redrawn as a whole, in one write, and cleared at the end.

    Raises ImportError without rich. above is how many full lines of pytest's unfinished line to erase.
    """

    def __init__(self, file: IO[str], *, has_colors: bool, above: int = 0) -> None:
        from rich.console import Console
        from rich.control import Control
        from rich.live import Live
        from rich.segment import ControlType

        # set explicitly: rich would read the environment only, and pytest reads its options as well
        self._console = Console(
            file=file,
            force_terminal=True,
            color_system="standard" if has_colors else None,
            no_color=not has_colors,
            highlight=False,
            markup=False,
            emoji=False,
            legacy_windows=False,
        )
        up = ((ControlType.CURSOR_UP, 1), (ControlType.ERASE_IN_LINE, 2)) * above
        self._console.control(Control(ControlType.CARRIAGE_RETURN, (ControlType.ERASE_IN_LINE, 2), *up))
        self._live = Live(console=self._console, auto_refresh=False, transient=True, redirect_stdout=False, redirect_stderr=False)

    def draw(self, words: Sequence[str], players: Sequence[Player], size: tuple[int, int]) -> None:
        """words are whole lines, cut where they are too long; size is the terminal's (columns, lines)."""
        self._console.size = size
        if not self._live.is_started:
            self._live.start()
            self._console.show_cursor(True)  # a run that is killed would leave the terminal without one
        self._live.update(_frame(words, players, *size), refresh=True)

    def close(self) -> None:
        self._live.stop()


def _frame(words: Sequence[str], players: Sequence[Player], columns: int, lines: int) -> Text:
    """Lines of text, which rich renders five times faster than its own tables."""
    from rich.text import Text

    shown = players[: max(0, lines - _AROUND)]
    parts = [Text(printable(line), style="" if index else "bold") for index, line in enumerate(words)]
    parts += _standings(shown, columns) if shown else []
    more = len(players) - len(shown)
    parts += [Text(f"and {more} more", style="dim")] if shown and more else []
    for part in parts:
        part.truncate(columns, overflow="ellipsis")
    frame = Text("\n", no_wrap=True, overflow="ellipsis").join(parts)
    frame.no_wrap, frame.overflow = True, "ellipsis"
    return frame


def _standings(players: Sequence[Player], columns: int) -> list[Text]:
    from rich.cells import cell_len, set_cell_size
    from rich.text import Text

    is_timed = any(player.latency_ns is not None for player in players)
    leader = next((p for p in players if p.latency_ns is not None and p.role != "roof"), None)
    limit = max(12, columns - _BESIDE)
    names = [_name(player, limit) for player in players]
    wide = min(limit, max(map(cell_len, [*names, _HEADER])))
    found = [Text(f"{_HEADER:{wide}}{_figures('ms so far', '% of roof', is_timed)}", style="dim")]
    for player, name in zip(players, names, strict=True):
        time = "" if player.latency_ns is None else milliseconds(player.latency_ns)
        share = "" if player.percent_of_roof is None else f"{player.percent_of_roof:.1f}"
        row = Text(set_cell_size(name, wide), style="bold" if player is leader else "")
        row.append(_figures(time, share, is_timed), style="not bold")
        found.append(row.append(player.state, style=_STYLES.get(player.state, "red")))
    return found


def _figures(time: str, share: str, is_timed: bool) -> str:
    return f"  {time:>9}  {share:>9}  " if is_timed else "  "


def _name(player: Player, limit: int) -> str:
    name = printable(player.name)
    if player.role == "entrant":
        return short(name, limit)
    return f"({short(name, max(3, limit - len(player.role) - 4))}: {player.role})"
