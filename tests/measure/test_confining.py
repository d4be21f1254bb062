"""What an implementation's process can do to others, on this kernel and on lesser ones, and what a run says about it."""

import contextlib
import errno
import os
import socket
import timeit
from pathlib import Path

import pytest
from support.offenders import BAD, arena, passed, write

from softbench.measure.worker import confining, landlock
from softbench.model import __file__ as MODEL

HERE = confining.possible()
needs_all = pytest.mark.skipif(set(HERE.values()) != {"yes"}, reason=f"not all can be confined here: {HERE}")
DEEDS = {
    "appends_to_records": "open({records!r}, 'a')",
    "cuts_records": "os.truncate({records!r}, 0)",
    "replaces_records": "open(tempfile.gettempdir() + '/x', 'w'); os.rename(tempfile.gettempdir() + '/x', {records!r})",
    "overwrites_a_rival": "open({kernels!r} + '/honest.py', 'w')",
    "removes_a_rival": "os.remove({kernels!r} + '/honest.py')",
    "links_beside_a_rival": "os.symlink('/', {kernels!r} + '/link')",
    "changes_softbench": f"open({MODEL!r}, 'a')",
    "calls_home": "socket.create_connection(('127.0.0.1', {port}), 5)",
    "asks_the_kernel": "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)",
    "kills_its_parent": "os.kill(os.getppid(), signal.SIGKILL)",
    "signals_all": "[os.kill(int(p), 0) for p in os.listdir('/proc') if p.isdigit() and int(p) != os.getpid()]",
    "makes_a_namespace": "call('unshare', 0x10000000)",
    "clones_into_one": "call('syscall', 56, 0x10000011, 0, 0, 0, 0)",
    "attaches": "call('ptrace', 16, os.getppid(), 0, 0)",
    "limits_its_parent": "import resource; resource.prlimit(os.getppid(), resource.RLIMIT_CPU, (9, 9))",
    "makes_a_disk": "os.mknod(tempfile.gettempdir() + '/disk', 0o60600, 0x801)",
}
"""What must be refused, and harms nothing where it is not: it is a test of this machine too."""
CALL = """
import tempfile
def call(name, *arguments):
    if ctypes.CDLL(None, use_errno=True)[name](*arguments): raise PermissionError(ctypes.get_errno(), 'refused')
"""


@needs_all
@pytest.mark.parametrize("place", ["import", "factory"])
@pytest.mark.parametrize("namespaces", ["", "off"])
def test_no_implementation_changes_or_reaches_anything_but_its_own(tmp_path, place, namespaces):
    kernels, records, model = tmp_path / "kernels", tmp_path / "RUN.jsonl", Path(MODEL).read_bytes()
    records.write_text("a record\n")
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        given = {"records": str(records), "kernels": str(kernels), "port": server.getsockname()[1]}
        for name, deed in DEEDS.items():
            write(kernels, name, place, CALL + deed.format(**given))
        with arena(kernels, SOFTBENCH_WRITABLE="", SOFTBENCH_NAMESPACES=namespaces) as field:
            source = (kernels / "honest.py").read_bytes()
            found = field.run(BAD)
        with pytest.raises(BlockingIOError):
            server.accept()
    assert passed(found), found["honest"].reason
    refused = f"{place} raised PermissionError: "
    assert {name: r.reason for name, r in found.items() if not r.reason.startswith(refused)}.keys() == {"honest"} | {
        r.variant.id for r in found.values() if r.role != "entrant"
    }
    reason = found["appends_to_records"].reason
    assert f"'{records}' (appends_to_records.py:" in reason
    assert "SOFTBENCH_WRITABLE=FOLDER allows a folder" in reason
    assert (records.read_text(), Path(MODEL).read_bytes()) == ("a record\n", model)
    assert sorted(p.name for p in kernels.iterdir()) == sorted(f"{name}.py" for name in [*DEEDS, "honest"])
    assert (kernels / "honest.py").read_bytes() == source


@pytest.mark.skipif(HERE["writes"] != "yes", reason="writes cannot be confined here")
def test_temporary_files_caches_and_allowed_folders_can_be_written(tmp_path):
    code = f"""
import getpass, subprocess, sys, tempfile
from multiprocessing import Lock, Pipe
own = Path(tempfile.mkdtemp())
(own / "a.cpp").write_text("extern \\"C\\" int one() {{ return 1; }}")
subprocess.run(["g++", "-shared", "-fPIC", "-o", own / "a.so", own / "a.cpp"], check=True)
assert ctypes.CDLL(str(own / "a.so")).one() == 1
cache = Path(os.environ["SOFTBENCH_CACHE_DIR"])
os.rename(own / "a.so", cache / "a.so")
Path(tempfile.gettempdir(), getpass.getuser(), "cutlass_python_cache", "x").touch()
Path(os.environ["TORCHINDUCTOR_CACHE_DIR"], "x").touch()
Lock(), Pipe(), socket.socketpair(), open("/dev/null", "w"), os.kill(os.getpid(), 0)
Path({str(tmp_path)!r}, "told").write_text(str(own))
"""
    write(tmp_path / "kernels", "writes", "factory", code)
    outside, cache = tmp_path / "tmp", tmp_path / "cache"
    outside.mkdir()
    named = {"TMPDIR": str(outside), "SOFTBENCH_CACHE_DIR": str(cache), "TORCHINDUCTOR_CACHE_DIR": f"{cache}/inductor"}
    with arena(tmp_path / "kernels", SOFTBENCH_WRITABLE=str(tmp_path), **named) as field:
        found = field.run(BAD)
        assert passed(found, ["honest", "writes"]), found["writes"].reason
        own = Path((tmp_path / "told").read_text())
        assert own.is_dir()
    assert not own.exists()
    assert (cache / "a.so").exists()


@needs_all
@pytest.mark.parametrize("version", [0, 1, 2, 5])
def test_a_lesser_kernel_is_taken_as_it_is(monkeypatch, tmp_path, version):
    """Older versions are asked of this kernel, which forbids no more than what it is asked for."""
    monkeypatch.setattr(landlock, "version", lambda: version)
    here = f"Landlock ABI {version}" if version else "no Landlock"
    writes = "yes" if version >= 2 else f"no: {here}; ABI 2 is needed"
    signals = f"no: {here}; ABI 6 is needed, or a PID namespace"
    assert confining.possible.__wrapped__() == {"writes": writes, "network": "yes", "signals": signals}
    (tmp_path / "file").write_text("kept")
    pid = os.fork()
    if pid == 0:
        confining.confine(str(tmp_path / "own"))
        with contextlib.suppress(PermissionError):
            os.truncate(tmp_path / "file", 0)
        with contextlib.suppress(PermissionError):
            socket.socket()
            (tmp_path / "socket").touch()
        os._exit(0)
    os.waitpid(pid, 0)
    assert (tmp_path / "file").read_text() == ("kept" if writes == "yes" else "")
    assert not (tmp_path / "socket").exists()


def test_what_fails_is_said_and_ends_nothing(monkeypatch):
    def forbidden(*arguments):
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    monkeypatch.setattr(landlock, "version", lambda: 6)
    monkeypatch.setattr(landlock, "restrict", forbidden)
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    why = "no: Landlock: Operation not supported"
    assert confining.possible.__wrapped__() == {"writes": why, "network": "no: seccomp: the filter is for x86_64", "signals": why}


@needs_all
def test_it_takes_less_than_five_milliseconds():
    assert min(timeit.repeat(confining.possible.__wrapped__, number=1, repeat=20)) < 0.005


def test_it_can_be_switched_off(tmp_path):
    write(tmp_path, "writes", "factory", f"socket.socket(); open({str(tmp_path / 'x')!r}, 'w')")
    with arena(tmp_path, SOFTBENCH_WRITABLE="", SOFTBENCH_CONFINE="off") as field:
        assert passed(field.run(BAD), ["honest", "writes"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SOFTBENCH_CONFINE", "off")
        assert set(confining.possible.__wrapped__().values()) == {"no: SOFTBENCH_CONFINE=off"}
