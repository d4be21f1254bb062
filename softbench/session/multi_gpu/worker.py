"""What a worker of pytest-xdist gets from the controller, and how it takes its GPU before anything touches the driver."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import asdict, dataclass, replace
from typing import Any

from softbench import typed
from softbench.measure import device, procfs
from softbench.model import Passport
from softbench.records import shards
from softbench.records.shards import Shard
from softbench.session.multi_gpu.seats import Seat
from softbench.session.settings import Settings, SettingsError

KEY = "softbench"
RUN = "softbench_run"
"""The key of what the run's file holds, if it is resumed."""
ERROR = "softbench_error"
"""The key under which the controller finds why a worker gave up."""


@dataclass(frozen=True)
class Orders:
    """A worker's seat, and its share of the run."""

    seat: Seat
    shard: Shard

    def settings(self, chosen: Settings) -> Settings:
        """The command's own settings, without the run to resume, which is in the shard."""
        return replace(chosen, resume="", seed=self.shard.passport.seed)

    def pack(self) -> str:
        """As text, since pytest-xdist transports plain data only; without what there is to resume."""
        shard = self.shard
        return json.dumps({"seat": asdict(self.seat), "passport": asdict(shard.passport), "worker": shard.worker})


def worker_count(config: Any) -> int:
    """How many workers the command asks for; 0 without pytest-xdist, and if cells are only listed.

    Raises SettingsError for workers on other machines: only the GPUs of this machine are counted.
    """
    option = config.option
    specs = getattr(option, "tx", None) or []
    if is_worker(config) or option.collectonly or getattr(option, "dist", "no") == "no":
        return 0
    if set(specs) - {"popen"}:
        raise SettingsError(f"--tx {' '.join(specs)}: workers are processes of this machine; use -n")
    return len(specs)


def is_worker(config: Any) -> bool:
    return hasattr(config, "workerinput")


def give_up(config: Any, why: str) -> None:
    """Tell the controller why this worker ends the run."""
    config.workeroutput[ERROR] = why


def take_orders(config: Any) -> Orders:
    """Read the controller's orders, and restrict this process to its GPU and cores.

    It ends with the controller, and its own workers with it. Raises SettingsError if CUDA was in use before.
    """
    data = json.loads(config.workerinput[KEY])
    old = shards.whole(config.workerinput.get(RUN, b""))
    shard = Shard(typed.build(Passport, data["passport"]), data["worker"], old)
    orders = Orders(typed.build(Seat, data["seat"]), shard)
    procfs.die_with_parent(signal.SIGKILL)
    seat = orders.seat
    os.sched_setaffinity(0, seat.cores)
    if seat.visible:
        os.environ["CUDA_VISIBLE_DEVICES"] = seat.visible
        found = device.gpus()
        if len(found) != 1 or (seat.gpu and found[0].id != seat.gpu):
            names = ", ".join(card.id for card in found) or "none"
            raise SettingsError(
                f"worker {shard.worker} is to measure on GPU {seat.visible} ({seat.gpu or 'id unknown'}) and sees {names}; "
                "does a conftest.py or a plugin start CUDA?"
            )
    return orders
