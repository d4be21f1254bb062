"""Confines an implementation's process: it writes to its temporary folder and to caches, opens no sockets, signals nobody else.

Landlock limits writes and signals, seccomp the rest; both hold for all that the process starts. What this kernel cannot forbid
stays allowed, and the passport says so. SOFTBENCH_CONFINE=off switches it off.
"""

import ctypes
import functools
import os
import tempfile
import threading

from softbench.measure.worker import landlock, seccomp, writable

_ADVICE = (
    "; an implementation writes only to temporary files and to caches, and opens no socket: SOFTBENCH_WRITABLE=FOLDER "
    "allows a folder"
)
_PARTS = ("writes", "network", "signals")
_PR_SET_NO_NEW_PRIVS = 38
_here: dict[str, str] = {}


def enter(temporary: str) -> None:
    """Make a worker's temporary folder, confine the worker, and have it use the folder."""
    variables = writable.make(temporary)
    _here.update(confine(temporary))
    os.environ.update(variables)
    tempfile.tempdir = variables.get("TMPDIR", tempfile.tempdir)


def advice(error: BaseException) -> str:
    """What to do about an error that confinement may have caused, to be added to its reason; "" for any other."""
    is_ours = isinstance(error, PermissionError) and any(how.startswith("yes") for how in _here.values())
    return _ADVICE if is_ours else ""


def confine(temporary: str) -> dict[str, str]:
    """Confine this thread, and all that it starts, for good: "yes" or "no: why not", for writes, network and signals."""
    if os.environ.get("SOFTBENCH_CONFINE") == "off":
        return dict.fromkeys(_PARTS, "no: SOFTBENCH_CONFINE=off")
    ctypes.CDLL(None).prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    done, version = dict.fromkeys(_PARTS, "yes"), landlock.version()
    if os.environ.get("SOFTBENCH_WRITABLE"):
        done["writes"] = "yes, but for SOFTBENCH_WRITABLE"
    found = f"Landlock ABI {version}" if version else "no Landlock"
    if version < landlock.SIGNALS:
        done["signals"] = f"no: {found}; ABI {landlock.SIGNALS} is needed, or a PID namespace"
    if version < landlock.LEAST:
        done["writes"] = f"no: {found}; ABI {landlock.LEAST} is needed"
    else:
        try:
            landlock.restrict(writable.folders(temporary), writable.devices())
        except OSError as error:
            done["writes"] = done["signals"] = f"no: Landlock: {error.strerror}"
    try:
        seccomp.restrict(may_truncate=version >= landlock.TRUNCATES or version < landlock.LEAST)
    except OSError as error:
        done["network"] = f"no: seccomp: {error.strerror}"
    return done


@functools.cache
def possible() -> dict[str, str]:
    """What `confine` answers here; a thread tries it, which ends with it."""
    answers: list[dict[str, str]] = []
    thread = threading.Thread(target=lambda: answers.append(confine(tempfile.gettempdir())))
    thread.start()
    thread.join()
    return answers[0]
