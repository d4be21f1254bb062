"""--softbench-registers: what kernels take, and nothing lost where that is unknown."""

import importlib.util
from contextlib import closing

import pytest
from support.pools import Forked

from softbench.cases import registry
from softbench.measure.contest.contest import Contest
from softbench.measure.contest.measuring import Rules
from softbench.measure.contest.worker_pool import WorkerPool
from softbench.model import Case, Status

if not importlib.util.find_spec("cuda") or not importlib.util.find_spec("cuda.core"):
    pytest.skip("NVRTC comes with cuda-core", allow_module_level=True)

CASE = Case("softmax", (8, 256), "float32", "float32")
CUBINS = {
    "plain": "",
    "built": "from impls.cuda import _host, _plans; yield from _host.cubins(case, _plans.WARP)",
    "broken": "raise RuntimeError('no compiler today')",
    "deadly": "import os; os._exit(3)",
}
ENTRY = """
@implementation(operator="softmax")
def {name}(case):
    return lambda x: x.softmax(-1)
"""
WITH_CUBINS = """
@{name}.cubins
def {name}_cubins(case):
    {code}
"""


def records(folder):
    folder.mkdir()
    entries = [(ENTRY + WITH_CUBINS * bool(code)).format(name=name, code=code) for name, code in CUBINS.items()]
    (folder / "kernels.py").write_text("from softbench import implementation\n" + "".join(entries))
    with closing(WorkerPool("cpu", lambda: Forked({}))) as pool:
        rules = Rules(budget_s=0.2, timeout_s=60.0, seed=1, registers=True)
        return {r.variant.id: r for r in Contest(rules, pool, None).run(CASE, registry.find([folder]))}


def test_kernels_of_measured_implementations(tmp_path):
    found = records(tmp_path / "kernels")
    assert {r.status for r in found.values()} == {Status.PASSED}
    assert all(r.clock("wall") for r in found.values())
    assert found["plain"].kernels == ()
    kernels = found["built"].kernels
    assert {k.name for k in kernels} == {"warp_rows_2", "warp_rows_4"}
    assert all(8 < k.registers <= 255 and k.stack_bytes == 0 for k in kernels)
    said = {name: [note for note in r.notes if note.startswith("no registers: ")] for name, r in found.items()}
    assert (said["plain"], said["built"]) == ([], [])
    assert "no compiler today" in said["broken"][0]
    assert "exit code 3" in said["deadly"][0]
    assert found["broken"].kernels == found["deadly"].kernels == ()
