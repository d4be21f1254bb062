"""Open files: the parent holds two per worker, and many machines give a process a low limit that it may raise itself."""

import os
import resource
import sys

from softbench.texts import InputError

EACH = 2
"""A worker's socket, and the pipe of its output."""
SPARE = 24
"""For pytest, the run's files and those that are open for a moment only."""


class TooFewFiles(InputError):
    """The limit of open files is too low for the processes of a case, and cannot be raised."""


def make_room(workers: int) -> None:
    """Raise the limit of open files as far as this many more workers need. Raises TooFewFiles."""
    given = resource.getrlimit(resource.RLIMIT_NOFILE)
    soft, hard = (sys.maxsize if limit == resource.RLIM_INFINITY else limit for limit in given)
    needed = len(os.listdir("/proc/self/fd")) + EACH * workers + SPARE
    if needed <= soft:
        return
    if needed > hard:
        raise TooFewFiles(
            f"{workers} processes need about {needed} open files here, and the limit is {hard}: raise it (ulimit -n {needed}), "
            "or choose fewer implementations with -k"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(needed, min(4096, hard)), given[1]))
