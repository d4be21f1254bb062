"""A pytest that is started ahead of its run: its processes run and its clocks are checked before it knows what to measure.

`python -m softbench.session.ahead` reads one line, {"folder": ..., "arguments": [...]}, and ends with the exit code of pytest with
these arguments in that folder.
"""

import contextlib
import json
import os
import sys

import pytest

from softbench import packages
from softbench.measure import device
from softbench.measure.contest import calibrating
from softbench.measure.contest.worker_pool import WorkerPool
from softbench.measure.device_lock import DeviceLock
from softbench.session.bench import Warm


def main() -> int:
    warm = Warm()
    with contextlib.suppress(OSError):  # what cannot be started fails again in the run, which says why
        _start(warm)
    try:
        if not (line := sys.stdin.readline()):  # nobody is there any more
            return 0
        order = json.loads(line)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        os.chdir(order["folder"])
        return int(pytest.main(order["arguments"], plugins=[warm]))
    finally:
        warm.close()


def of(config: pytest.Config) -> Warm | None:
    """What was started ahead of a run, if anything was."""
    return next((plugin for plugin in config.pluginmanager.get_plugins() if isinstance(plugin, Warm)), None)


def _start(warm: Warm) -> None:
    if packages.is_missing("torch"):
        return
    card = device.gpu()
    warm.pool = WorkerPool("cuda" if card else "cpu", serves_many=True)
    warm.pool.start()
    if card is not None:
        with DeviceLock(card.id, "ahead").hold(shared=False, waiting=lambda holder, seconds: None):
            warm.calibrations = calibrating.calibrate(warm.pool, card.l2_bytes, device=False)


if __name__ == "__main__":
    sys.exit(main())
