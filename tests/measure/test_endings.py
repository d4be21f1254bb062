"""Implementations that misbehave when they are dropped, or when the interpreter ends."""

from textwrap import indent

import pytest
from support.grids import over
from support.offenders import BAD, C_ATEXIT, NEXT, arena, passed, write
from support.projects import bench, project

from softbench.records import store

ATEXIT = "import atexit\natexit.register(%s)"
AT_EXIT = {  # left behind by a launch that is right; none of it may be heard of
    "raises": ATEXIT % "lambda: 1 / 0",
    "exits": ATEXIT % "lambda: os._exit(9)",
    "aborts": ATEXIT % "os.abort",
    "hangs": ATEXIT % "time.sleep, 600",
    "aborts_in_c": C_ATEXIT,
    "leaves_a_thread": "import threading\nthreading.Thread(target=time.sleep, args=(600,)).start()",
    "hangs_at_flush": "class Deaf:\n    def write(self, text): pass\n    def flush(self): time.sleep(600)\nsys.stdout = Deaf()",
}
DROPPED = {  # waits in what the launch holds on to, until it is let go of behind its case
    "raises_when_dropped": "raise RuntimeError('gone')",
    "aborts_when_dropped": "os.abort()",
    "exits_when_dropped": "os._exit(3)",
}
PROXY = """
class Proxy:
    columns = BAD_COLUMNS
    def __del__(self): {code}
case = Proxy()
"""
DEAD = ("aborts_when_dropped", "exits_when_dropped")
"""Those whose process is gone when a case is over; the next case starts another."""


@pytest.fixture(scope="module")
def field(tmp_path_factory):
    folder = tmp_path_factory.mktemp("endings")
    _write_endings(folder)
    with arena(folder) as made:
        yield made


def _write_endings(folder, prefix=""):
    for name, code in AT_EXIT.items():
        write(folder, f"{prefix}{name}", "launch", "if calls == 1:\n" + indent(code, "    "))
    for name, code in DROPPED.items():
        write(folder, f"{prefix}{name}", "factory", PROXY.format(code=code))


@pytest.fixture(scope="module")
def contest(field):
    return field.run(BAD), field.run(NEXT)


@over("name", [*AT_EXIT, *DROPPED])
def test_what_waits_for_the_end_is_not_heard_of(field, contest, name):
    first, second = contest
    assert passed(first, ["honest", name]), first[name].reason
    assert passed(second, ["honest", name]), second[name].reason
    assert len(set(field.pids(name))) == (2 if name in DEAD else 1)


def test_the_command_ends_as_if_nothing_waited(tmp_path):
    folder = project(tmp_path)
    _write_endings(folder / "kernels" / "mine", "own_")
    names = [f"own_{name}" for name in (*AT_EXIT, *DROPPED)]
    for name in names:
        file = folder / "kernels" / "mine" / f"{name}.py"
        file.write_text(file.read_text().replace("BAD_COLUMNS, calls = 64, 0", "BAD_COLUMNS, calls = 256, 0"))
    wanted = " or ".join(["own_right", *names])
    prefix = ["env", f"SOFTBENCH_WRITABLE={folder}"]  # a Python of its own, to its end
    assert bench(folder, "-k", wanted, prefix=prefix, code=0).stderr == ""
    (path,) = (folder / "reports").glob("*.jsonl")
    found = {record.variant.id: record.status.value for record in store.read(path).records if record.role == "entrant"}
    assert found == dict.fromkeys(["own_right", *names], "PASSED")
    before = path.read_bytes()
    bench(folder, "-k", "own_", "--softbench-resume=latest", code=1, SOFTBENCH_WRITABLE=str(folder))
    assert path.read_bytes().startswith(before)
