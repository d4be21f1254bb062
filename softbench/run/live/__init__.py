"""The running contest on a terminal: a board by rich where it is installed, else one line; nothing where there is no terminal.

What is drawn is drawn by the parent between two requests, never by a thread of its own: its host times would tell.
"""

from __future__ import annotations

from softbench.run.live.terminal import Live, uncaptured

__all__ = ["Live", "uncaptured"]
