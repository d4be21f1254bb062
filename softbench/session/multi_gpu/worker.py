"""What a worker of pytest-xdist gets from the controller, and how it takes its GPU before anything touches the driver."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from softbench import typed
from softbench.measure import device, procfs
from softbench.model import Passport
from softbench.records.shards import Shard
from softbench.session.multi_gpu.seats import Seat
from softbench.session.settings import Settings, SettingsError

KEY = "softbench"
ERROR = "softbench_error"
"""The key under which the controller finds why a worker gave up."""


@dataclass(frozen=True)
class Orders:
    """A worker's seat, its shard of the run, and whether that run is resumed."""

    seat: Seat
    shard: Shard
    resumes: bool

    def settings(self, chosen: Settings) -> Settings:
        """The command's own settings; a resumed run is the file that the controller has found."""
        return replace(chosen, resume=str(self.shard.run) if self.resumes else "", seed=self.shard.passport.seed)

    def pack(self) -> str:
        """As text, since pytest-xdist transports plain data only."""
        return json.dumps(
            {
                "seat": asdict(self.seat),
                "run": str(self.shard.run),
                "passport": asdict(self.shard.passport),
                "worker": self.shard.worker,
                "resumes": self.resumes,
            }
        )


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
    shard = Shard(Path(data["run"]), typed.build(Passport, data["passport"]), data["worker"])
    orders = Orders(typed.build(Seat, data["seat"]), shard, data["resumes"])
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
