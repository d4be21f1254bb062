"""The running contest on a terminal: a board by rich if it is installed, else one line; nothing without a terminal.

The parent draws it between two requests, never in a thread, which would disturb host times.
"""

from softbench.session.live.terminal import Live

__all__ = ["Live"]
