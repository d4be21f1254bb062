"""Checks every clock against kernels of known duration, in a process of its own, before anything is measured."""

from softbench.measure.contest.entrant import Entrant
from softbench.measure.contest.worker_pool import WorkerPool
from softbench.measure.contest.workers import ask
from softbench.model import Calibration, Variant

TIMEOUT_S = 60.0
_SPINNING = Variant("the calibration kernel", "", "", "", "")


def calibrate(pool: WorkerPool, l2_bytes: int, *, device: bool) -> tuple[Calibration, ...]:
    """The calibrations of `graph` and `call`, and of `device` if requested; one that cannot be tried says why."""
    entrant = Entrant(_SPINNING, "calibration")
    pool.assign([entrant])
    fault = entrant.reason
    if entrant.worker is not None and entrant.is_open:
        answer = ask(entrant.worker, entrant.request("calibrate", device=device, l2_bytes=l2_bytes), TIMEOUT_S)
        entrant.worker.end()
        if answer.ok:
            calibrations: tuple[Calibration, ...] = answer.data["calibrations"]
            return calibrations
        fault = answer.reason
    return tuple(Calibration(clock, fault=fault) for clock in ("graph", "call", *(["device"] if device else [])))
