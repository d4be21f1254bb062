"""One cell in the process that asks: no deadline, no second process, no clock. What `--softbench-debug` runs."""

from __future__ import annotations

import os

from softbench.contract import Unsupported
from softbench.measure.contest.entrant import Entrant, mode_of
from softbench.measure.contest.processes import environment_for
from softbench.measure.device import gpu
from softbench.measure.worker.handler import RequestHandler
from softbench.model import Case, Status, Variant


def prepare(case: Case, variant: Variant, seed: int) -> tuple[Status | None, str]:
    """Import, build and check a variant as a worker does, or compile it if that is all that it can do here.

    Returns (None, "") if nothing is wrong, else a status and the reason. Raises what the implementation raises, except a refusal.
    Sets the environment of a worker, so it must come before torch is imported.
    """
    card = gpu()
    mode, why = mode_of(variant, card)
    if why:
        return Status.UNAVAILABLE, why
    os.environ.update(environment_for(mode))
    handler = RequestHandler("cuda" if card and mode == "measure" else "cpu")
    operation = "compile" if mode == "compile" else "prepare"
    try:
        answer = handler.handle(Entrant(variant, "entrant").request(operation, case, seed=seed))
    except Unsupported as refusal:
        return Status.UNSUPPORTED, str(refusal)
    return (None, "") if answer["ok"] else (Status(answer["status"]), answer["reason"])
