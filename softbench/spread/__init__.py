"""Several GPUs: every worker of pytest-xdist measures on one of its own, and the controller makes one run of it.

A case stays on one GPU, with all that take part in it: only what was timed on one card in the same rounds is compared.
Without a GPU workers check side by side, and take turns where something is timed (`softbench.turns`).
"""

from __future__ import annotations

from softbench.spread.controller import Controller
from softbench.spread.seats import seats
from softbench.spread.worker import give_up, is_worker, take_orders, worker_count

__all__ = ["Controller", "give_up", "is_worker", "seats", "take_orders", "worker_count"]
