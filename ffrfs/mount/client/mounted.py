"""mount() and mounted(): mounts made by a program, served by a process of their own.

This process never serves: a program that reads its own mount would wait for itself, and one
that forks (data loader workers) would copy the server. Both run `ffrfs mount`. The daemon of
mounted() also watches a pipe that this process holds, so that it unmounts even if this
process is killed; a mount of mount() stays until it is unmounted.

Not here: unmounting (unmount.py). Concurrency: from any thread. A forked child keeps no end of a
pipe, and leaves the mount to its parent.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import operator
import os
import secrets
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, SupportsIndex, Unpack

from ffrfs.errors import MountError, OptionError
from ffrfs.files.closing import closing_fd
from ffrfs.files.interpreter import interpreter
from ffrfs.mount.client.unmount import unmount
from ffrfs.mount.config.settings import MountKeywords, PathType
from ffrfs.mount.kernel import state
from ffrfs.mount.kernel.mount_table import MountEntry, mount_at
from ffrfs.mount.kernel.mountpoint import canonical
from ffrfs.mount.kernel.options import escape
from ffrfs.mount.kernel.process import Process
from ffrfs.remote.url import is_url, parse_url

_FD_MIN = 3  # after those of standard input, output and error

# The ends of the pipes that daemons watch.
_owned: set[int] = set()
# Held while one is made or closed, so that a fork waits for it.
_lock = threading.RLock()  # a signal handler may fork where its thread has the lock

log = logging.getLogger(__name__)


def mount(
    pack: PathType | Sequence[PathType],
    mountpoint: PathType | None = None,
    *,
    options: str | Sequence[str] = (),
    **keywords: Unpack[MountKeywords],
) -> Path:
    """Mount `pack`, or several as one tree, and return the mount point.

    The mount stays when this process ends, as that of the command `ffrfs mount`; end it with
    `ffrfs.unmount()`. `ffrfs.mounted()` mounts for the time of a block.

    Without `mountpoint` a new directory in the temporary directory is used, and removed when
    it is unmounted. `keywords`: those of MountKeywords, which are the options of `ffrfs mount`
    and the words of its `-o`, with the same defaults. `umask`: a number (0o022), or octal
    digits ("022"). `max_memory`: bytes, or a text as "2G". `prefetch_window`: records, or
    "512,64M". `prefetch_ttl`: seconds. `extensions=False`: features of TFRecord files without
    extensions. `config`: a TOML file for all other settings. `options`: more words of `-o`,
    as in fstab.

    Raises MountError with the reason if it cannot be mounted.
    """
    return _mount(pack, mountpoint, _words(keywords), options)


@contextlib.contextmanager
def mounted(
    pack: PathType | Sequence[PathType],
    mountpoint: PathType | None = None,
    *,
    options: str | Sequence[str] = (),
    **keywords: Unpack[MountKeywords],
) -> Iterator[Path]:
    """Mount `pack`, or several as one tree, yield the mount point, and unmount at the end.

    It is also unmounted if this process is killed. The parameters are those of `ffrfs.mount()`.
    Files that are open at the end of the block can still be read. Raises MountError with the
    reason if it cannot be mounted.
    """
    words = _words(keywords)
    owner = os.getpid()
    with _lock:
        end, ours = os.pipe()
        _owned.add(ours)
    try:
        with closing_fd(end):
            # If standard input is closed, the pipe may be 0, which `ffrfs mount` gets as /dev/null.
            theirs = fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, _FD_MIN)
        with closing_fd(theirs):
            place = _mount(pack, mountpoint, words, options, owner=theirs)
        entry, daemon = mount_at(str(place)), _daemon_at(place)
        try:
            yield place
        finally:
            if os.getpid() == owner:
                _unmount_same(place, entry, daemon)
    finally:
        if os.getpid() == owner:
            with _lock:
                _owned.remove(ours)
                os.close(ours)


def _unmount_same(place: Path, entry: MountEntry | None, daemon: Process | None) -> None:
    there = mount_at(str(place))
    # The daemon may have made the mount again after a lost connection.
    is_same = there == entry or (daemon is not None and daemon == _daemon_at(place))
    # Otherwise others have unmounted it. Its daemon ends with our pipe, wherever the mount is.
    if there is not None and there.is_ours and is_same:
        done = unmount(str(place))
        if done.notice is not None:
            log.warning("%s", done.notice)


def _leave_to_parent() -> None:
    for end in _owned:
        os.close(end)
    _owned.clear()
    _lock.release()


os.register_at_fork(
    before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_leave_to_parent
)


def _daemon_at(place: Path) -> Process | None:
    found = state.find(str(place))
    return None if found is None else found[1].process


def _words(keywords: MountKeywords) -> list[str]:
    """Return the keywords as words of -o."""
    for name in keywords:
        if name not in MountKeywords.__annotations__:
            raise TypeError(f"mount() got an unexpected keyword argument {name!r}")
    named: dict[str, Any] = {**keywords, "no_extensions": not keywords.get("extensions", True)}
    named.pop("extensions", None)
    if isinstance(named.get("umask"), SupportsIndex):
        named["umask"] = f"{operator.index(named['umask']):o}"
    return [
        _word(name, value)
        for name, value in named.items()
        if value is not None and value is not False
    ]


def _word(name: str, value: bool | float | PathType) -> str:
    if value is True:
        return name
    return f"{name}={escape(os.fspath(value) if isinstance(value, os.PathLike) else str(value))}"


def _refuse_signed(packs: Sequence[PathType]) -> None:
    for url in (parse_url(os.fspath(pack)) for pack in packs if is_url(pack)):
        if url.query:
            raise OptionError(
                f"{url.shown}: all users could see the part after the ? on a command line; "
                "name the URL in a file for config="
            )


def _mount(
    pack: PathType | Sequence[PathType],
    mountpoint: PathType | None,
    words: list[str],
    options: str | Sequence[str],
    owner: int | None = None,
) -> Path:
    """Run `ffrfs mount`. `owner`: a pipe that its daemon watches."""
    python = interpreter("ffrfs mount", MountError)
    if mountpoint is None:
        # The daemon makes the directory, so that it removes it even if this process is killed.
        mountpoint = os.path.join(tempfile.gettempdir(), f"ffrfs-{secrets.token_hex(8)}")
    place = canonical(os.fspath(mountpoint))
    packs = [pack] if isinstance(pack, str | os.PathLike) else pack
    if not packs:
        raise MountError("no pack to mount: name at least one")
    _refuse_signed(packs)
    more = [options] if isinstance(options, str) else options
    arguments = [] if owner is None else ["--while-open", str(owner)]
    for value in (*more, ",".join(words)):
        arguments += ["-o", value] if value else []
    command = [
        *(python, "-P", "-m", "ffrfs", "mount", *arguments, "--"),
        *(os.fspath(path) for path in packs),
        place,
    ]
    before = mount_at(place)
    try:
        done = subprocess.run(
            command,
            pass_fds=[] if owner is None else [owner],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            check=False,
        )
    except BaseException:  # Ctrl-C: a mount without an owner does not end by itself
        if owner is None and mount_at(place) not in (None, before):
            unmount(place)
        raise
    lines = [line.removeprefix("ffrfs: ") for line in done.stderr.strip().splitlines()]
    # A program that ignores SIGCHLD gets 0 from subprocess in any case.
    if done.returncode != 0 or mount_at(place) is None:
        raise MountError(lines[-1] if lines else f"ffrfs mount exited with {done.returncode}")
    for line in lines:
        log.warning("%s", line)
    return Path(place)
