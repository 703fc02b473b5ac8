"""Runs a command as on a kernel without a certain system call, or in a container without it.

without_call.py NAME[=ERROR] COMMAND...: the command and all its children get ENOSYS from the
call, or ERROR.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
LOAD_WORD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, REFUSE = 0x7FFF0000, 0x00050000
NUMBERS = {
    "seccomp": {"x86_64": 317, "aarch64": 277},
    "io_uring_setup": {"x86_64": 425, "aarch64": 425},
    "openat2": {"x86_64": 437, "aarch64": 437},
    "pidfd_open": {"x86_64": 434, "aarch64": 434},
    "memfd_create": {"x86_64": 319, "aarch64": 279},
    "flock": {"x86_64": 73, "aarch64": 32},
    "clone": {"x86_64": 56, "aarch64": 220},  # what os.fork() uses
}


class Program(ctypes.Structure):
    """struct sock_fprog."""

    _fields_ = (("count", ctypes.c_ushort), ("code", ctypes.c_char_p))


def main() -> None:
    name, _, error = sys.argv[1].partition("=")
    code = b"".join(
        struct.pack("HBBI", *step)
        for step in (
            (LOAD_WORD, 0, 0, 0),  # the call's number
            (JUMP_IF_EQUAL, 0, 1, NUMBERS[name][os.uname().machine]),
            (RETURN, 0, 0, REFUSE | getattr(errno, error or "ENOSYS")),
            (RETURN, 0, 0, ALLOW),
        )
    )
    libc = ctypes.CDLL(None, use_errno=True)
    program = Program(len(code) // 8, code)
    assert libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
    assert libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program)) == 0
    os.execvp(sys.argv[2], sys.argv[2:])


if __name__ == "__main__":
    main()
