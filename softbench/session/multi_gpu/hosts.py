"""The hosts that `--tx` names. All have the same files at the same paths; what they measure comes through pytest-xdist."""

import json
import os
import platform
import sys
from collections import Counter
from dataclasses import asdict, replace
from typing import Any

from softbench import typed
from softbench.measure import device
from softbench.records.comparable import MACHINE
from softbench.session.multi_gpu.seats import Seat, seats
from softbench.session.settings import SettingsError

ANSWER_S = 60.0
_ALIVE = "-o ConnectTimeout=10 -o ServerAliveInterval=10 -o ServerAliveCountMax=3"
"""ssh by itself waits for ever for a host without power."""
_LOOK = """
import os, sys
count, folder, sys.path[:] = channel.receive()
os.chdir(folder)
from softbench.session.multi_gpu import hosts
channel.send(hosts.described(count))
"""


def crew(texts: list[str]) -> tuple[Seat, ...]:
    """A seat for each of these specifications of execnet. Raises SettingsError, also for a host of another model than this one."""
    if set(texts) <= {"popen"}:
        return seats(len(texts)) if texts else ()
    own, found = device.describe(), dict[str, list[Seat]]()
    for text, count in Counter(texts).items():
        name, machine, row = json.loads(described(count) if text == "popen" else look(text, count))
        found[text] = [typed.build(Seat, seat) for seat in row]
        if key := next((key for key in (*MACHINE, "driver") if machine.get(key) != own.get(key)), ""):
            both = f"{key} {machine.get(key)!r} on {name}, and {own.get(key)!r} on {platform.node()}, where the command runs"
            raise SettingsError(f"--tx {text}: machines of one run are of one model, and here are two: {both}")
    return tuple(found[text].pop(0) for text in texts)


def described(count: int) -> str:
    """This host's name, machine, and seats for `count` workers, as text."""
    name = platform.node()
    return json.dumps([name, device.describe(), [asdict(replace(seat, host=name)) for seat in seats(count)]])


def look(text: str, count: int = 1) -> str:
    """What `described` says where this specification starts a process. Raises SettingsError."""
    import execnet

    group = execnet.Group()
    try:
        channel = group.makegateway(prepare(execnet.XSpec(text))).remote_exec(_LOOK)
        channel.send((count, os.getcwd(), sys.path))
        return str(channel.receive(ANSWER_S))
    except execnet.RemoteError as error:
        why = str(error).strip().rpartition("\n")[2]
    except Exception:
        why = "the connection failed"
    finally:
        group.terminate(1)
    raise SettingsError(f"--tx {text}: no worker can be started there ({why:.200})")


def prepare(spec: Any) -> Any:
    """The specification, with this Python and this folder."""
    if spec.ssh and _ALIVE not in spec.ssh:
        *options, host = spec.ssh.split()
        spec.ssh, spec.python = " ".join([*options, _ALIVE, host]), spec.python or sys.executable
    if spec.ssh or spec.socket:
        spec.popen, spec.chdir = None, os.getcwd()
    return spec


def is_elsewhere(spec: Any) -> bool:
    return not str(spec).endswith("popen")
