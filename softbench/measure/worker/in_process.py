"""One cell in the process that asks: no deadline, no second process, no clock. What `--softbench-debug` runs.

As a program it reads a request, as JSON, and prepares it: what compute-sanitizer watches (`sanitizing.py`).
"""

import json
import os
import sys
from typing import Any

from softbench.contract import Unsupported
from softbench.measure.contest.entrant import Entrant, mode_of
from softbench.measure.contest.processes import environment_for
from softbench.measure.device import gpu, toolkit
from softbench.measure.worker import faults, loading, sanitizing, traces
from softbench.measure.worker.authoring import AuthorHandler
from softbench.model import Case, Status, Variant


def prepare(case: Case, variant: Variant, seed: int) -> tuple[Status | None, str]:
    """Import, build and check a variant as a worker does, or compile it if that is all that it can do here.

    Returns (None, "") if nothing is wrong, else a status and the reason, as also for what softbench itself finds and raises, in
    whose traceback no frame is the author's. Raises what the implementation raises, except a refusal.
    Sets the environment of a worker, so it must come before torch is imported.
    """
    if variant.interpreter:
        return Status.UNAVAILABLE, f"{variant.interpreter} runs it, and not this process; leave --softbench-debug out"
    card = gpu()
    mode, why = mode_of(variant, card)
    if why:
        return Status.UNAVAILABLE, why
    handler = _handler(mode)
    try:
        answer = handler.handle(_request(case, variant, seed, mode))
    except Unsupported as refusal:
        return Status.UNSUPPORTED, str(refusal)
    except Exception as error:
        if traces.place(error, loading.folders()):
            raise
        return faults.classify(error, handler.phase)
    return (None, "") if answer["ok"] else (Status(answer["status"]), answer["reason"])


def sanitized(case: Case, variant: Variant, seed: int, timeout_s: float) -> str:
    """What compute-sanitizer finds first in a cell on a GPU, as text; "" where there is nothing, no GPU or no such tool."""
    mode, why = mode_of(variant, gpu())
    if why or mode != "measure" or gpu() is None or not toolkit(sanitizing.TOOL):
        return ""
    try:
        return sanitizing.first_finding(_request(case, variant, seed, mode), timeout_s)
    except TimeoutError as error:
        return str(error)


def _request(case: Case, variant: Variant, seed: int, mode: str) -> dict[str, Any]:
    operation = "compile" if mode == "compile" else "prepare"
    return Entrant(variant, "entrant").request(operation, case, seed=seed) | {"mode": mode}


def _handler(mode: str) -> AuthorHandler:
    os.environ.update(environment_for(mode))
    return AuthorHandler("cuda" if gpu() and mode == "measure" else "cpu")


if __name__ == "__main__":
    asked = json.load(sys.stdin)
    _handler(asked["mode"]).handle(asked)
