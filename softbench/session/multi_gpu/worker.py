"""What a worker of pytest-xdist gets from the controller, and how it takes its GPU before anything touches the driver."""

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
from softbench.session.multi_gpu import hosts
from softbench.session.multi_gpu.seats import Seat
from softbench.session.settings import Settings, SettingsError

KEY = "softbench"
RUN = "softbench_run"
"""The key of what the run's file holds, if it is resumed."""
ERROR, REPEATS = "softbench_error", "softbench_repeats"
"""The keys under which the controller finds why a worker gave up, and what it measured that others had measured."""


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


def crew_of(config: Any) -> tuple[Seat, ...]:
    """The seats of the workers that the command asks for; none without pytest-xdist, and if cells are only listed."""
    option = config.option
    if is_worker(config) or option.collectonly or not getattr(option, "tx", None):
        return ()
    from xdist.workermanage import parse_tx_spec_config

    option.dist = "load"  # also for --tx alone, which pytest-xdist ignores without -d
    return hosts.crew(parse_tx_spec_config(config))


def is_worker(config: Any) -> bool:
    return hasattr(config, "workerinput")


def take_orders(config: Any) -> Orders:
    """Read the controller's orders, and restrict this process to its GPU and cores.

    It ends with the controller, and its own workers with it. Raises SettingsError if CUDA was in use before.
    """
    data = json.loads(config.workerinput[KEY])
    seat, old = typed.build(Seat, data["seat"]), shards.whole(config.workerinput.get(RUN, b""))
    orders = Orders(seat, Shard(typed.build(Passport, data["passport"]), data["worker"], seat.host, old))
    procfs.die_with_parent(signal.SIGKILL)
    os.sched_setaffinity(0, seat.cores)
    if seat.visible:
        os.environ["CUDA_VISIBLE_DEVICES"] = seat.visible
        found = device.gpus()
        if len(found) != 1 or (seat.gpu and found[0].id != seat.gpu):
            names = ", ".join(card.id for card in found) or "none"
            raise SettingsError(
                f"worker {orders.shard.worker} is to measure on GPU {seat.visible} ({seat.gpu or 'id unknown'}) and sees {names}; "
                "does a conftest.py or a plugin start CUDA?"
            )
    return orders
