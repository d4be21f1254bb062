"""Several GPUs: every worker of pytest-xdist measures on one of its own, and the controller makes one run of it.

A case stays on one GPU, with all that take part in it: only what was timed on one card in the same rounds is compared.
Without a GPU workers check side by side, and take turns where something is timed (`softbench.measure.device_lock`).
"""

from __future__ import annotations

from softbench.run.multi_gpu.controller import Controller
from softbench.run.multi_gpu.seats import Seat, seats
from softbench.run.multi_gpu.worker import give_up, is_worker, take_orders, worker_count

__all__ = ["Controller", "Seat", "give_up", "is_worker", "seats", "take_orders", "worker_count"]
