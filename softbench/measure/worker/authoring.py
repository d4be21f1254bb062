"""An author's worker on a GPU: runs implementations, hands their launches over, and times what only it can: the host's calls.

What cannot be handed over is checked and timed here, as on a CPU: such cells are open.
"""

from __future__ import annotations

from softbench.measure.plans import Plan
from softbench.measure.sealed.author import Author
from softbench.measure.sealed.capture import Unsealable
from softbench.measure.sealed.driver import DriverError
from softbench.measure.worker.handler import RequestHandler, Slot
from softbench.measure.worker.wire import Message


class AuthorHandler(RequestHandler):
    """A worker that can also hand over what it built."""

    def __init__(self, device: str) -> None:
        super().__init__(device)
        self._author = Author()

    def do_author(self, request: Message) -> Message:
        """Build one variant and capture its launches: where the hand-over is, or why there is none. Nothing is judged here."""
        self.begin(request)
        number, plan = request["slot"], request["plan"]
        launch = self._author.build(number, lambda: self.build(request))
        self.slots[number] = Slot(launch)
        try:
            path = self._author.hand_over(
                number, launch, self.operator, self.case, Plan(**plan) if plan else None, request["seed"]
            )
        except (Unsealable, DriverError) as error:
            return {"open_because": str(error)}
        finally:
            self.clock.close()
        return {"path": str(path)}

    def do_call(self, request: Message) -> Message:
        self._author.finish()
        return super().do_call(request)

    def do_drop(self, request: Message) -> Message:
        answer = super().do_drop(request)
        self._author.forget_all()
        return answer
