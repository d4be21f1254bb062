"""pytest-xdist's scheduler with the case as its scope."""

from collections.abc import Collection
from typing import Any


def make(config: Any, log: Any, case_ids: Collection[str]) -> Any:
    """A scheduler that also drops the cells of a case whose worker died: what has killed one worker would kill the next.

    Other tests are scheduled as with `--dist loadscope`.
    """
    from xdist.scheduler import LoadScopeScheduling

    class CaseScheduling(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return _case_scope(nodeid, case_ids) or str(super()._split_scope(nodeid))

        def remove_node(self, node: Any) -> str | None:
            work = self.assigned_work[node]
            running = next((name for unit in work.values() for name, is_done in unit.items() if not is_done), "")
            lost = work.pop(_case_scope(running, case_ids), None)
            crashed: str | None = super().remove_node(node)
            return crashed if lost is None else running

    return CaseScheduling(config, log)


def _case_scope(nodeid: str, case_ids: Collection[str]) -> str:
    """The node id of the case that a cell belongs to, "" for another test."""
    words = nodeid.split("::", 2)
    return "::".join(words[:2]) if len(words) == 3 and words[1] in case_ids else ""
