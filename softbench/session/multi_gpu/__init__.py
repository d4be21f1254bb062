"""Several GPUs, by pytest-xdist: docs/design.md, "Several GPUs".

Without a GPU workers check in parallel, and take turns when something is timed (`softbench.measure.device_lock`).
"""

from softbench.session.multi_gpu.controller import Controller
from softbench.session.multi_gpu.seats import Seat, places
from softbench.session.multi_gpu.worker import ERROR, REPEATS, crew_of, is_worker, take_orders

__all__ = ["ERROR", "REPEATS", "Controller", "Seat", "crew_of", "is_worker", "places", "take_orders"]
