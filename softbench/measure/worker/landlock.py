"""Landlock, by its system calls: this thread, and all that it starts, may write only below the folders and to the files given.

Reading and executing stay as they are. https://docs.kernel.org/userspace-api/landlock.html
"""

import ctypes
import os
import struct
from collections.abc import Iterable

LEAST = 2
"""The first version that lets a file be renamed from one folder into another, as every cache does."""
TRUNCATES = 3
"""The first version that keeps a file from being cut by its path."""
SIGNALS = 6
"""The first version that keeps signals, and abstract sockets, among the confined."""

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION, _PATH_BENEATH = 1, 1
_WRITE_FILE, _TRUNCATE = 1 << 1, 1 << 14
_DEVICES = 1 << 6 | 1 << 11
"""To make character and block devices: root could write to a disk by a file of its own."""
_ENTRIES = sum(1 << bit for bit in (4, 5, 7, 8, 9, 10, 12, 13))
"""To remove files and folders; to make folders, files, sockets, pipes and links; to move between folders."""
_TCP, _ABSTRACT_SOCKETS_AND_SIGNALS = 3, 3
_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


def version() -> int:
    """The version of Landlock's interface in this kernel; 0 where it is missing, off or forbidden."""
    try:
        return _call(_CREATE_RULESET, None, 0, _VERSION)
    except OSError:
        return 0


def restrict(folders: Iterable[str], files: Iterable[str]) -> None:
    """Confine this thread for good; what does not exist is left out. Raises OSError. Needs PR_SET_NO_NEW_PRIVS."""
    number = version()
    of_file = _WRITE_FILE | (_TRUNCATE if number >= TRUNCATES else 0)
    scope = _ABSTRACT_SOCKETS_AND_SIGNALS if number >= SIGNALS else 0
    handled = struct.pack("=QQQ", of_file | _ENTRIES | _DEVICES, _TCP if number >= 4 else 0, scope)
    ruleset = _call(_CREATE_RULESET, handled, len(handled), 0)
    try:
        for rights, paths in ((of_file | _ENTRIES, folders), (of_file, files)):
            for path in paths:
                _allow(ruleset, path, rights)
        _call(_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        _call(_ADD_RULE, ruleset, _PATH_BENEATH, struct.pack("=Qi", rights, place), 0)
    finally:
        os.close(place)


def _call(number: int, *arguments: bytes | int | None) -> int:
    words = [ctypes.c_ulong(a) if isinstance(a, int) else ctypes.c_char_p(a) for a in arguments]
    result = int(_libc.syscall(ctypes.c_long(number), *words))
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
