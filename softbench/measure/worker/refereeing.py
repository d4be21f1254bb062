"""A referee's worker: rebuilds, checks and times what an author handed over. It imports no implementation."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from softbench.measure.check import check, watching
from softbench.measure.clocks import GraphClock, redrawing
from softbench.measure.incorrect import Incorrect, WrongWhenTimed
from softbench.measure.plans import Plan
from softbench.measure.sealed import handover
from softbench.measure.sealed.launch import SealedLaunch
from softbench.measure.sealed.memory import Memory
from softbench.measure.worker.handler import RequestHandler, Slot
from softbench.measure.worker.wire import Message


class RefereeHandler(RequestHandler):
    """A worker whose launches are rebuilt from data; its memory is reserved before it has a context."""

    def __init__(self, device: str) -> None:
        self._memory = Memory()
        super().__init__(device, GraphClock())

    def do_hello(self, request: Message) -> Message:
        """Also load the kernels that renew buffers of a timed case, while its author still builds."""
        answer = super().do_hello(request)
        if "case" in request:
            self.begin(request)
            if self.case.timed:
                self.clock.get_ready(self.case)
        return answer

    def do_take(self, request: Message) -> Message:
        """Rebuild one variant's launches, and check them; the resources of its kernels, the digest of what was read, the errors.

        With a digest only that very hand-over is taken.
        """
        self.begin(request)
        self.phase = "launch"
        package = handover.read(Path(request["handed_over"]), request.get("digest", ""))
        like = self.operator.make_inputs(self.case, "meta", request["seed"])
        launch = SealedLaunch(package, self._memory, like, self.case)
        old = self.slots.pop(request["slot"], None)
        if old is not None:
            old.launch.close()
        accuracy = None
        if not request.get("is_checked"):
            accuracy = self.accept(check(self.case, launch, self.device, request["seed"], run=watching.run))
        launch.free()
        self.clock.close()
        self.slots[request["slot"]] = Slot(launch)
        kernels = [asdict(kernel) for kernel in launch.kernels]
        return {"kernels": kernels, "digest": package.digest, "accuracy": accuracy}

    def place(self, slot: Slot, plan: Plan, seed: int) -> Any:
        return slot.launch.place(plan, seed)

    def do_cold(self, request: Message) -> Message:
        self.phase = "launch"
        launch = self.slots[request["slot"]].launch
        launch(*self.operator.make_inputs(self.case, self.device, request["seed"]))
        redraw = redrawing(self.operator, self.case, request["seed"])
        return {"cold": self.clock.cold_samples(launch.bare, launch.places, request["l2_bytes"], redraw)}

    def spans(self, slot: Slot, plan: Plan, seed: int, l2_bytes: int) -> list[list[int]]:
        """Each group of calls is in new memory. Its calls share their buffers, which the flush before each drives out of the L2."""
        launch = slot.launch

        def place(first: int) -> list[Any]:
            launch.renew()
            launch(*self.operator.make_inputs(self.case, self.device, first))
            return [launch.places]

        try:
            return self.device_clock.samples(self.operator, self.case, launch.bare, plan, seed, l2_bytes, place)
        finally:
            launch.free()

    def repeat(self, slot: Slot) -> tuple[Any, Any]:
        """As of any launch; the memory behind it, two calls' worth, is given back at once."""
        try:
            return slot.placement.buffers.repeat(slot.launch, slot.launch.again)  # type: ignore[no-any-return]
        finally:
            slot.launch.free()

    def do_verify(self, request: Message) -> Message:
        placement = self.slots[request["slot"]].placement
        if wrong := placement.misdeed():
            raise Incorrect(wrong)
        answer = super().do_verify(request)
        if wrong := placement.overwritten():
            raise WrongWhenTimed(wrong)
        return answer

    def do_release(self, request: Message) -> Message:
        for slot in self.slots.values():
            if slot.placement is not None:
                slot.placement.release()
            slot.launch.free()
        return super().do_release(request)

    def do_drop(self, request: Message) -> Message:
        for slot in self.slots.values():
            slot.launch.close()
        answer = super().do_drop(request)
        self._memory.free_all()
        return answer
