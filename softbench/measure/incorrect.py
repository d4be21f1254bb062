"""What is raised where an implementation is found wrong; the message is the reason, in one line."""

from softbench.model import WRONG_WHEN_TIMED


class Incorrect(Exception):
    """What is wrong with an implementation."""


class WrongWhenTimed(Incorrect):
    """What is wrong with timed calls, or with their time, of a launch that was right in the check."""

    def __init__(self, why: str) -> None:
        super().__init__(f"{WRONG_WHEN_TIMED}: {why}")
