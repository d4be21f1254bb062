"""Every clock compared with kernels of known duration."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import astuple

from softbench.analysis.document import Dataset
from softbench.doctor.findings import NOT_TRIED, Findings, Target
from softbench.measure.contest import calibrating
from softbench.measure.contest.worker_pool import WorkerPool
from softbench.model import Calibration, calibration

TITLE = "Kernels of known duration"


def look(target: Target) -> Findings:
    """Measure kernels that spin on the GPU's timer by every clock; a clock that misreads is a failure."""
    if target.card is None:
        return Findings(TITLE, (NOT_TRIED,))
    target.progress("kernels of known duration")
    with closing(WorkerPool("cuda")) as pool:
        return tell(calibrating.calibrate(pool, target.card.l2_bytes, device=True))


def tell(calibrations: Sequence[Calibration]) -> Findings:
    wrong = [f"the {c.clock} clock {why}" for c in calibrations if (why := calibration.misreading(c))]
    wrong += [f"the {c.clock} clock was not checked: {c.fault}" for c in calibrations if c.fault and c.clock != "device"]
    right = [c for c in calibrations if c.known_ns and not calibration.misreading(c)]
    trust = []
    if right:
        worst = max(map(calibration.share_off, right))
        names = ", ".join(c.clock for c in right)
        trust.append(f"clocks: {names} are right within {worst:.2%}, by the GPU's own timer")
    trust += [f"clocks: no {c.clock} clock here: {c.fault}" for c in calibrations if c.fault]
    read = Dataset("calibrations", ("clock", "known_ns", "read_ns", "fault"), tuple(map(astuple, calibrations)))
    return Findings(TITLE, tuple(map(calibration.describe, calibrations)), tuple(wrong), tuple(trust), (read,))
