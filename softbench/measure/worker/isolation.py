"""A PID namespace per worker, if the kernel allows it: a worker can neither kill nor stop what it cannot see.

Its /proc shows only its own processes, and when its first process ends the kernel kills all others in it. Process numbers stay
distinct between workers, since compilers name temporary files by them. If any step fails there are no namespaces at all:
containers often forbid them, and workers then see each other as processes usually do.
"""

import ctypes
import os
from collections.abc import Callable
from pathlib import Path

_CLONE_NEWNS, _CLONE_NEWUSER, _CLONE_NEWPID = 0x20000, 0x10000000, 0x20000000
_MS_BIND, _MS_REC, _MS_PRIVATE = 0x1000, 0x4000, 0x40000
_MS_NOSUID_NODEV_NOEXEC = 2 | 4 | 8
_DRIVER = "/proc/driver"
"""Where NVIDIA's container runtime shows a container its own GPUs; a new /proc would show all GPUs of the machine."""


def is_possible() -> bool:
    """Whether a worker can have a namespace here; a process tries. SOFTBENCH_NAMESPACES=off switches them off."""
    if os.environ.get("SOFTBENCH_NAMESPACES") == "off":
        return False
    return _holds(_try)


def leave() -> None:
    """Put the children of this process into a new namespace. Raises OSError if that is forbidden."""
    try:
        _unshare(_CLONE_NEWPID | _CLONE_NEWNS)
    except PermissionError:
        user, group = os.getuid(), os.getgid()
        _unshare(_CLONE_NEWUSER | _CLONE_NEWPID | _CLONE_NEWNS)
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")


def arrive(number: int) -> None:
    """In the first process of a new namespace: mount its own /proc, and give the next process the number after `number`."""
    driver = os.open(_DRIVER, os.O_PATH) if os.path.isdir(_DRIVER) else None
    _mount("none", "/", "", _MS_REC | _MS_PRIVATE)
    _mount("proc", "/proc", "proc", _MS_NOSUID_NODEV_NOEXEC)
    if driver is not None:
        _mount(f"/proc/self/fd/{driver}", _DRIVER, "", _MS_BIND | _MS_REC)
        os.close(driver)
    Path("/proc/sys/kernel/ns_last_pid").write_text(str(number))


def _try() -> bool:
    leave()
    number = os.getpid()
    return _holds(lambda: _try_inside(number))


def _try_inside(number: int) -> bool:
    arrive(number)
    return _holds(lambda: os.getpid() == int(os.readlink("/proc/self")) > number)


def _holds(check: Callable[[], bool]) -> bool:
    """Whether a check holds in a child of this process."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = 0 if check() else 1
        except (OSError, ValueError):
            pass
        finally:
            os._exit(code)
    return os.waitpid(child, 0)[1] == 0


def _unshare(flags: int) -> None:
    _call("unshare", flags)


def _mount(source: str, target: str, kind: str, flags: int) -> None:
    _call("mount", source.encode(), target.encode(), kind.encode() or None, flags, None)


def _call(function: str, *arguments: bytes | int | None) -> None:
    """Call a function of the C library. Raises OSError if it fails."""
    if getattr(ctypes.CDLL(None, use_errno=True), function)(*arguments):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), function)
