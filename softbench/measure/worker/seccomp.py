"""A seccomp filter for x86_64: no sockets but Unix ones, no reaching into other processes, no change of the machine.

What is refused fails with PermissionError and ends nothing. https://docs.kernel.org/userspace-api/seccomp_filter.html
"""

import ctypes
import errno
import os
import platform
import socket
import struct
from collections.abc import Sequence

ARCHITECTURE = "x86_64"
_REFUSED = {
    "ptrace": 101, "process_vm_readv": 310, "process_vm_writev": 311, "pidfd_getfd": 438, "process_madvise": 440,
    "mount": 165, "umount2": 166, "pivot_root": 155, "chroot": 161, "unshare": 272, "setns": 308, "open_tree": 428,
    "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433, "mount_setattr": 442,
    "bpf": 321, "add_key": 248, "request_key": 249, "keyctl": 250, "kexec_load": 246, "kexec_file_load": 320,
    "init_module": 175, "finit_module": 313, "delete_module": 176, "open_by_handle_at": 304,
    "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427,
    "settimeofday": 164, "adjtimex": 159, "clock_settime": 227, "clock_adjtime": 305, "reboot": 169, "swapon": 167,
    "swapoff": 168, "acct": 163, "iopl": 172, "ioperm": 173, "sethostname": 170, "setdomainname": 171,
}  # fmt: skip
"""io_uring opens sockets that no filter sees."""
_TRUNCATE, _SOCKET, _CLONE, _CLONE3, _PRLIMIT = 76, 41, 56, 435, 302
_NAMESPACES = 0x7E020000
"""Flags of clone that make a namespace."""
_X32 = 0x40000000
_AUDIT_ARCH_X86_64 = 0xC000003E
_NUMBER, _ARCH, _FIRST = 0, 4, 16
"""Where a filter finds a call's number, its architecture, and the low half of its first argument."""
_LOAD, _EQUAL, _AT_LEAST, _ANY_OF, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_SECCOMP, _SET_MODE_FILTER, _SPECULATION_ALLOWED = 317, 1, 4
"""Before Linux 5.16 a filter without the last flag slows a process by a defence against Spectre."""
_libc = ctypes.CDLL(None, use_errno=True)

Instruction = tuple[int, int, int, int]


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def restrict(may_truncate: bool) -> None:
    """Confine this thread, and all that it starts, for good. Raises OSError. Needs PR_SET_NO_NEW_PRIVS.

    may_truncate  whether files may be cut by their paths, which Landlock does not see before its third version
    """
    if platform.machine() != ARCHITECTURE:
        raise OSError(errno.ENOSYS, f"the filter is for {ARCHITECTURE}")
    code = b"".join(struct.pack("=HBBI", *each) for each in program(may_truncate))
    held = _Program(len(code) // 8, code)
    for flags in (_SPECULATION_ALLOWED, 0):
        arguments = (ctypes.c_long(_SET_MODE_FILTER), ctypes.c_ulong(flags), ctypes.byref(held))
        if _libc.syscall(ctypes.c_long(_SECCOMP), *arguments) == 0:
            return
        if ctypes.get_errno() != errno.EINVAL:  # a kernel without that flag
            break
    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def program(may_truncate: bool) -> list[Instruction]:
    """The filter, as (operation, jump if true, jump if false, operand)."""
    never = [*_REFUSED.values(), *([] if may_truncate else [_TRUNCATE])]
    foreign = [(_LOAD, 0, 0, _ARCH), (_EQUAL, 1, 0, _AUDIT_ARCH_X86_64), _refuse(errno.ENOSYS), (_LOAD, 0, 0, _NUMBER)]
    return [
        *foreign,
        *((_AT_LEAST, 0, 1, _X32), _refuse(errno.ENOSYS)),
        *(each for number in never for each in ((_EQUAL, 0, 1, number), _refuse(errno.EPERM))),
        *((_EQUAL, 0, 1, _CLONE3), _refuse(errno.ENOSYS)),  # its flags are out of sight; the C library then uses clone
        *_unless(_CLONE, (_ANY_OF, 0, 1, _NAMESPACES), is_allowed=False, number=errno.EPERM),
        *_unless(_SOCKET, (_EQUAL, 0, 1, socket.AF_UNIX), is_allowed=True, number=errno.EACCES),
        *_unless(_PRLIMIT, (_EQUAL, 0, 1, 0), is_allowed=True, number=errno.EPERM),  # 0: the process itself
        (_RETURN, 0, 0, _ALLOW),
    ]


def _unless(call: int, test: Instruction, *, is_allowed: bool, number: int) -> Sequence[Instruction]:
    """Look at the first argument of a call: it is allowed if that passes the test, or if it does not."""
    answers = [(_RETURN, 0, 0, _ALLOW), _refuse(number)]
    return [(_EQUAL, 0, 4, call), (_LOAD, 0, 0, _FIRST), test, *(answers if is_allowed else reversed(answers))]


def _refuse(number: int) -> Instruction:
    return (_RETURN, 0, 0, _ERRNO | number)
