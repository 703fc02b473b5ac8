"""Opens files that a daemon writes for as long as it lives, and refuses unsuitable kinds.

They are regular files, or /dev/null. A pipe, a socket or a device would block opening and
writing for as long as it is not read, and replacing it (metrics) would destroy it. A file
system that hangs blocks each call, so a thread makes the call, with a time limit.

Concurrency: no state; blocking, within a limit.
"""

from __future__ import annotations

import contextlib
import os
import stat
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TypeVar

from ffrfs.errors import FileSystemHangsError, OptionError
from ffrfs.files.kind import kind_of_file

LIMIT_S = 5.0
_NULL_DEVICE = os.makedev(1, 3)
_NO_KINDS = ("a text file", "a file of unknown kind", "an empty file")
_KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFDIR: "a directory",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}

Value = TypeVar("Value")


def open_to_append(path: str, *, create: bool = True) -> int:
    """Return a descriptor of the file, which is made if it is missing, unless not `create`.

    Raises OptionError for another kind of file, and OSError. May wait for the file system.
    """
    with contextlib.suppress(FileNotFoundError):
        status = os.stat(path)
        refuse_other_kinds(path, status)  # opening a pipe or a device may have effects
        if stat.S_ISREG(status.st_mode):
            _refuse_other_contents(path)
    flags = os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    fd = os.open(path, flags | (os.O_CREAT if create else 0), 0o666)
    try:
        refuse_other_kinds(path, os.fstat(fd))
    except OptionError:
        os.close(fd)
        raise
    return fd


def refuse_other_kinds(path: str, status: os.stat_result) -> None:
    """Raise OptionError if a daemon must not write to this kind of file."""
    if stat.S_ISREG(status.st_mode) or _is_null(status):
        return
    kind = _KINDS.get(stat.S_IFMT(status.st_mode), "of another kind")
    raise OptionError(f"{path}: must be a regular file, but is {kind}; name another file")


def _refuse_other_contents(path: str) -> None:
    """Raise OptionError for a file whose kind is known: lines at its end would damage a pack.

    A log may have bytes that are no text, as after a crash of the machine.
    """
    try:
        kind = kind_of_file(path)
    except OSError:  # it may be writable alone
        return
    if kind.name not in _NO_KINDS:
        raise OptionError(f"{path}: exists ({kind}), and is not a log; name another file")


def refuse_to_replace(path: str) -> None:
    """Raise OptionError if a file must not replace what exists at `path`."""
    with contextlib.suppress(FileNotFoundError):
        status = os.lstat(path)
        if stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode):
            return  # a symbolic link is replaced itself, not its target
        if _is_null(status):
            raise OptionError(f"{path}: is a device; a file must not replace it")
        refuse_other_kinds(path, status)


def _is_null(status: os.stat_result) -> bool:
    return stat.S_ISCHR(status.st_mode) and status.st_rdev == _NULL_DEVICE


def within_limit(
    path: str,
    act: Callable[[], Value],
    *,
    late: Callable[[Value], object] = lambda _: None,
    limit_s: float = LIMIT_S,
) -> Value:
    """Return or raise the result of `act`, which makes calls to the file system of `path`.

    Raises FileSystemHangsError if that takes too long; `late` gets a result that comes later.
    """
    outcome: Future[Value] = Future()

    def run() -> None:
        try:
            value = act()
        except Exception as error:
            outcome.set_exception(error)
        else:
            outcome.set_result(value)

    threading.Thread(target=run, name="ffrfs-file", daemon=True).start()
    wait([outcome], limit_s)
    if not outcome.done():
        outcome.add_done_callback(lambda done: done.exception() or late(done.result()))
        raise FileSystemHangsError(
            f"{path}: its file system has not answered for {limit_s:g} s; choose another place"
        )
    return outcome.result()
