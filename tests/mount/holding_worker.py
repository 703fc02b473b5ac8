"""A worker of a native mount that lets itself be held in the kernel.

It shows one file, "file", and never answers a READ of it. Another thread stores the page
instead (FUSE_NOTIFY_STORE), and the kernel then holds this thread until the READ has ended.
The kernel would hold the real worker like this if it died at the wrong moment.

As a program it takes the arguments of ffrfs-worker; the structures are those of linux/fuse.h.
"""

from __future__ import annotations

import os
import socket
import stat
import struct
import sys
import threading

SIZE = 4096
ROOT, FILE = 1, 2
FORGET, BATCH_FORGET, INTERRUPT = 2, 42, 36
LOOKUP, GETATTR, OPEN, READ, STATFS, INIT, OPENDIR, READDIR = 1, 3, 14, 15, 17, 26, 27, 28
RELEASE, RELEASEDIR, READDIRPLUS = 18, 29, 44
NOTIFY_STORE, NOTIFY_RESEND = 4, 7
ENOENT, ENOSYS = 2, 38
# A second worker, which takes over, answers each READ: its first argument exists as a file then.
IS_SECOND = os.path.exists(sys.argv[1])

IN_HEADER = struct.Struct("<IIQQIIII")
OUT_HEADER = struct.Struct("<IiQ")
INIT_OUT = struct.Struct("<4I2H2I2HI28x")
ATTRIBUTES = struct.Struct("<6Q3I7I")
YEAR_S = 365 * 24 * 3600


def attributes(ino: int) -> bytes:
    mode = stat.S_IFDIR | 0o555 if ino == ROOT else stat.S_IFREG | 0o444
    return ATTRIBUTES.pack(ino, SIZE, 8, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)


def store(connection: int) -> None:
    body = struct.pack("<QQII", FILE, 0, SIZE, 0) + bytes(SIZE)
    os.write(2, b"<6>the kernel holds a thread\n")
    os.write(connection, OUT_HEADER.pack(OUT_HEADER.size + len(body), NOTIFY_STORE, 0) + body)


def answer(opcode: int, ino: int, body: bytes) -> tuple[int, bytes]:
    """Return (errno, the bytes after the header)."""
    if opcode == INIT:
        return 0, INIT_OUT.pack(7, 31, 1 << 17, 0, 12, 9, 1 << 17, 1, 32, 0, 0)
    if opcode == LOOKUP and body == b"file\0":
        return 0, struct.pack("<4Q2I", FILE, 0, YEAR_S, YEAR_S, 0, 0) + attributes(FILE)
    if opcode == GETATTR:
        return 0, struct.pack("<QII", YEAR_S, 0, 0) + attributes(ino)
    if opcode in (OPEN, OPENDIR, STATFS, READ):
        return 0, bytes({STATFS: 80, READ: SIZE}.get(opcode, 16))
    if opcode in (READDIR, READDIRPLUS, RELEASE, RELEASEDIR):
        return 0, b""
    return ENOENT if opcode == LOOKUP else ENOSYS, b""


def serve(connection: int) -> None:
    while True:
        try:
            request = os.read(connection, 1 << 18)
        except OSError:  # the connection has ended
            return
        _, opcode, unique, ino, *_ = IN_HEADER.unpack_from(request)
        if opcode == READ and not IS_SECOND:
            threading.Thread(target=store, args=(connection,), daemon=True).start()
        elif opcode not in (FORGET, BATCH_FORGET, INTERRUPT):
            error, body = answer(opcode, ino, request[IN_HEADER.size :])
            header = OUT_HEADER.pack(OUT_HEADER.size + len(body), -error, unique)
            os.write(connection, header + body)


def main() -> None:
    options = dict(argument.split("=", 1) for argument in sys.argv[1:] if "=" in argument)
    with socket.socket(fileno=int(options["--daemon-socket"])) as daemon:
        daemon.send(b"opened\0")
        _, fds, _, _ = socket.recv_fds(daemon, 1, 1)
        if IS_SECOND:  # the kernel sends the first worker's requests again
            os.write(fds[0], OUT_HEADER.pack(OUT_HEADER.size, NOTIFY_RESEND, 0))
        serve(fds[0])


if __name__ == "__main__":
    main()
