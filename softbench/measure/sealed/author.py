"""An author's process: builds launches in the shared range of addresses, captures them, and writes the hand-over."""

import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from softbench.cases.operators import Operator
from softbench.measure.plans import Plan
from softbench.measure.sealed.arena import Arena, NoAddresses
from softbench.measure.sealed.capture import Capture, Unsealable, captured
from softbench.measure.sealed.driver import DriverError
from softbench.measure.sealed.images import Images, NoImages
from softbench.model import Case, Tensor

Launch = Callable[..., Any]
CHECKS = 2
"""Single launches that are captured for the checks; their outputs are held together, so they must lie apart."""
_WARM_UP = 2


@dataclass
class Held:
    """What one variant holds in an author's process while its case lasts."""

    pools: list[Any] = field(default_factory=list)
    path: Path | None = None


class Author:
    """Made before the process has a context; it can then hand over launches, or say why not (`refusal`)."""

    def __init__(self) -> None:
        import torch

        self._torch = torch
        self.refusal = ""
        self._held: dict[int, Held] = {}
        try:
            self._arena, self._images = Arena(), Images()
        except (NoAddresses, NoImages, DriverError, OSError, AttributeError) as error:
            self.refusal = f"this machine cannot seal: {error}"

    def build(self, slot: int, make: Callable[[], Launch]) -> Launch:
        """Build a launch whose workspaces lie in the range."""
        self.forget(slot)
        if self.refusal:
            return make()
        try:
            self._images.attach()
        except NoImages as error:
            self.refusal = f"its machine code cannot be read: {error}"
            return make()
        held = self._held[slot] = Held([self._arena.pool()])
        with self._arena.using(held.pools[0]):
            return make()

    def hand_over(self, slot: int, launch: Launch, operator: Operator, case: Case, plan: Plan | None, seed: int) -> Path:
        """Capture launches of a slot, and write the file. Raises Unsealable, and what the launch raises."""
        if self.refusal:
            raise Unsealable(self.refusal)
        held, capture = self._held[slot], Capture(self._images, self._arena.holds)
        stream = self._torch.cuda.Stream()
        with self._torch.cuda.stream(stream), self._arena.recording():
            first = self._arena.next
            inputs, kept = self._capture_checks(capture, held, launch, operator, case, seed, stream)
            last = self._arena.next
            if plan is not None:
                kept += self._capture_timed(capture, held, launch, inputs, plan, stream)
            allocated = self._arena.allocated()
        stream.synchronize()
        pieces, used = self._arena.blocks()
        of_spaces = {a for a, size in pieces for b, _ in used if a <= b < a + size}
        pieces = [(a, size) for a, size in pieces if a >= first or a in of_spaces]
        file = tempfile.NamedTemporaryFile(prefix="softbench-sealed-", delete=False)  # noqa: SIM115 - `forget` removes it
        file.close()
        held.path = Path(file.name)
        capture.write(held.path, self._arena.base, pieces, used, allocated, last)
        del kept, inputs
        held.pools = []  # `empty_cache` frees nothing of a pool that is held
        self._torch.cuda.empty_cache()
        return held.path

    def _capture_checks(
        self, capture: Capture, held: Held, launch: Launch, operator: Operator, case: Case, seed: int, stream: Any
    ) -> tuple[tuple[Tensor, ...], list[Any]]:
        """Single launches, in memory of their own: the inputs, and what they returned."""
        pool = self._arena.pool()
        held.pools.append(pool)
        with self._arena.using(pool):
            inputs = operator.make_inputs(case, "cuda", seed)
        with self._arena.using(held.pools[0]):
            for _ in range(_WARM_UP):
                launch(*inputs)
                stream.synchronize()
        with self._arena.using(pool):
            kept = []
            for _ in range(CHECKS):
                with captured(stream) as graph:
                    kept.append(launch(*inputs))
                capture.add(graph, [inputs], kept[-1:])
        return inputs, kept

    def _capture_timed(
        self, capture: Capture, held: Held, launch: Launch, inputs: tuple[Tensor, ...], plan: Plan, stream: Any
    ) -> list[Any]:
        """The launches of a sample, which never run here."""
        pool = self._arena.pool()
        held.pools.append(pool)
        with self._arena.using(pool, is_shown=True):
            sets = [tuple(map(self._like, inputs)) for _ in range(plan.inputs)]
            kept: list[Any] = []
            with captured(stream) as graph:
                for number in range(plan.launches):
                    kept.append(launch(*sets[number % plan.inputs]))
            capture.add(graph, sets, kept)
        return [sets, kept]

    def _like(self, x: Tensor) -> Tensor:
        """A tensor of the same layout in another storage, which is not filled."""
        storage = self._torch.empty(x.untyped_storage().nbytes(), dtype=self._torch.uint8, device=x.device)
        return storage.view(x.dtype).as_strided(x.shape, x.stride(), x.storage_offset())

    def finish(self) -> None:
        """Let CUPTI go, so that calls can be timed in this process."""
        if not self.refusal:
            with suppress(NoImages):
                self._images.detach()

    def forget(self, slot: int) -> None:
        """Give back what a slot holds, its file included."""
        held = self._held.pop(slot, None)
        if held is not None and held.path is not None:
            held.path.unlink(missing_ok=True)

    def forget_all(self) -> None:
        for slot in list(self._held):
            self.forget(slot)
        if not self.refusal:
            self._torch.cuda.empty_cache()
            self._arena.restart()
