"""What becomes of the work of a host that has died: pytest-xdist by itself would wait for it, or end with an error."""

from collections.abc import Callable
from typing import Any

import pytest

from softbench.session.multi_gpu import hosts
from softbench.session.settings import SettingsError


class Replacing:
    """In place of the method by which pytest-xdist starts a worker again; resume is the option that measures what is lost."""

    def __init__(self, session: Any, note: Callable[[str], None], resume: str) -> None:
        self._session, self._note, self._resume = session, note, resume
        self._start, session._clone_node = session._clone_node, self._replace
        self._gone: set[str] = set()
        self._ended: list[Any] = []

    def ended(self, node: Any) -> None:
        self._ended.append(node)
        self._fill_in()

    def _replace(self, node: Any) -> None:
        spec, scheduler = node.gateway.spec, self._session.sched
        host = spec.softbench_seat.host
        if host not in self._gone:
            try:
                if hosts.is_elsewhere(spec):
                    hosts.look(str(spec))
                return self._again(node)
            except SettingsError:
                self._gone.add(host)
                self._note(f"{host} is gone; others go on, and {self._resume} measures what it was measuring")
        if node not in scheduler.registered_collections:  # which it waits for
            scheduler.numnodes -= 1
            if scheduler.nodes and not scheduler.collection and scheduler.collection_is_completed:
                scheduler.schedule()
        self._fill_in()
        if self._session._active_nodes == {node} and not (scheduler.collection and scheduler.tests_finished):
            pytest.exit(f"softbench: no host is left; go on with: {self._resume}", pytest.ExitCode.INTERRUPTED)

    def _again(self, node: Any) -> None:
        hosts.prepare(node.gateway.spec)
        self._start(node)

    def _fill_in(self) -> None:
        """If all that still run take no further case, a worker that has ended begins again with what is left."""
        session = self._session
        ended = [node for node in self._ended if node.gateway.spec.softbench_seat.host not in self._gone]
        is_stuck = session.sched.workqueue and all(node.shutting_down for node in session.sched.nodes)
        if ended and is_stuck and not session.shouldstop:
            self._ended.remove(ended[0])
            session.shuttingdown = False
            self._again(ended[0])
