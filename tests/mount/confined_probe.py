"""Tries acts that a confined service may not do; writes the errno of each, 0 if it worked.

    confined_probe.py FILE

The unit itself runs this, so it is confined as a mount is. FILE receives the answer as JSON.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import socket
import sys
from collections.abc import Callable

CLONE_NEWNS = 0x20000
ATTEMPTS: dict[str, Callable[[], object]] = {
    "the FUSE device": lambda: os.close(os.open("/dev/fuse", os.O_RDWR)),
    "another device": lambda: os.close(os.open("/dev/kmsg", os.O_RDONLY)),
    "a socket of the network": lambda: socket.socket(socket.AF_INET).close(),
    "a socket of this machine": lambda: socket.socket(socket.AF_UNIX).close(),
    "a namespace": lambda: call("unshare", CLONE_NEWNS),
    "another user": lambda: os.setuid(1),
    "another owner": lambda: os.chown(sys.argv[1], 1, 1),
    "set-uid": lambda: os.chmod(sys.argv[1], 0o4755),
    "code in data": lambda: mmap.mmap(-1, 4096, prot=mmap.PROT_WRITE | mmap.PROT_EXEC).close(),
}


def call(name: str, *arguments: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def errno_of(attempt: Callable[[], object]) -> int:
    try:
        attempt()
    except OSError as error:
        return error.errno or -1
    return 0


def main() -> None:
    with open(sys.argv[1], "w", encoding="ascii") as file:
        json.dump({name: errno_of(attempt) for name, attempt in ATTEMPTS.items()}, file)


if __name__ == "__main__":
    main()
