"""What a daemon leaves on disk for other processes: one small JSON file per mount.

It stands in the runtime directory, which belongs to one user: /run/ffrfs for root,
$XDG_RUNTIME_DIR/ffrfs for others, else /tmp/ffrfs-UID. `ffrfs umount` learns from it
who serves a mount and what to clean up after a daemon that died, `ffrfs ps` what there is.

Concurrency: whoever makes or takes away a mount holds the lock of its runtime directory
(locked()) from looking to acting. Files are replaced whole, so readers need no lock.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from ffrfs.errors import MountError
from ffrfs.mount import mountpoint as mount_point
from ffrfs.mount.process import Process


@dataclass(frozen=True, kw_only=True)
class MountState:
    """One mount, as its daemon wrote it down."""

    mountpoint: str
    pack: str  # what is mounted, for people
    process: Process
    created_mountpoint: bool
    log_file: str | None  # None: a foreground daemon's stderr
    # Not in the files of older versions.
    packs: tuple[str, ...] = ()
    began_s: float | None = None  # of time.time()


def runtime_directory() -> str:
    """Where this user's daemons are known; made if missing, refused if not ours alone."""
    failure: OSError | None = None
    for path in _candidates():
        try:
            os.makedirs(path, mode=0o700, exist_ok=True)
        except OSError as error:
            failure = error
            continue
        found = os.lstat(path)
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
            raise MountError(f"{path}: must be a directory of user {os.geteuid()}; remove it")
        if stat.S_IMODE(found.st_mode) & 0o077:
            raise MountError(f"{path}: must be closed to other users; run: chmod 700 {path}")
        return path
    assert failure is not None
    raise failure


@contextlib.contextmanager
def locked(directory: str) -> Iterator[None]:
    """Hold the directory's lock; it ends with the process at the latest."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def log_path(directory: str, mountpoint: str) -> str:
    """The log of a daemon that was given none; it goes when the mount goes."""
    return os.path.join(directory, _stem(mountpoint) + ".log")


def socket_path(directory: str, mountpoint: str) -> str:
    """Where the daemon is asked (control_socket.py); it goes when the mount goes."""
    return os.path.join(directory, _stem(mountpoint) + ".sock")


def save(directory: str, state: MountState) -> None:
    fd, temporary = tempfile.mkstemp(dir=directory, prefix=".new-")
    try:
        with open(fd, "w", encoding="ascii") as file:
            json.dump(asdict(state), file)
        os.rename(temporary, _path(directory, state.mountpoint))
    except BaseException:
        os.unlink(temporary)
        raise


def load(directory: str, mountpoint: str) -> MountState | None:
    """What is known of that mount; None: nothing, or nothing that can be read."""
    return _read(_path(directory, mountpoint))


def load_all() -> list[tuple[str, MountState]]:
    """All mounts that this user's runtime directories know, with the directory of each."""
    found = []
    for directory in _own_directories():
        for name in sorted(os.listdir(directory)):
            path = os.path.join(directory, name)
            state = _read(path) if name.endswith(".json") else None
            if state is not None and _path(directory, state.mountpoint) == path:
                found.append((directory, state))
    return found


def find(mountpoint: str) -> tuple[str, MountState] | None:
    """The runtime directory that knows the mount, and what it knows.

    Of two that do, one may know a dead daemon only: another session's, or before a reboot.
    """
    found = [
        (directory, state)
        for directory in _own_directories()
        if (state := load(directory, mountpoint)) is not None
    ]
    alive = (known for known in found if known[1].process.is_alive())
    return next(alive, found[0] if found else None)


def release(directory: str, state: MountState) -> None:
    """Forget a mount that was taken away, and remove what was made for it.

    Does nothing if another daemon has taken the place since. Both the daemon and
    `ffrfs umount` may call it, in any order.
    """
    with locked(directory):
        if load(directory, state.mountpoint) == state:
            forget(directory, state)


def forget(directory: str, state: MountState) -> None:
    """As release(), for the holder of the lock who knows that the place is his."""
    if state.created_mountpoint:
        mount_point.remove(state.mountpoint)
    place = state.mountpoint
    own_log = log_path(directory, place)
    for path in (_path(directory, place), socket_path(directory, place), own_log, own_log + ".1"):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


def _candidates() -> list[str]:
    user_id = os.geteuid()
    paths = [f"/tmp/ffrfs-{user_id}"]
    if user_id == 0:
        paths.insert(0, "/run/ffrfs")
    elif session := os.environ.get("XDG_RUNTIME_DIR"):
        paths.insert(0, os.path.join(session, "ffrfs"))
    return paths


def _own_directories() -> list[str]:
    """Those that are there, and not somebody else's, under our name."""
    found = []
    for directory in _candidates():
        with contextlib.suppress(FileNotFoundError, PermissionError):
            status = os.lstat(directory)
            if stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid():
                found.append(directory)
    return found


def _stem(mountpoint: str) -> str:
    return hashlib.sha256(os.fsencode(mountpoint)).hexdigest()[:16]


def _read(path: str) -> MountState | None:
    try:
        with open(path, encoding="ascii") as file:
            fields = json.load(file)
        fields["process"] = Process(**fields["process"])
        fields["packs"] = tuple(fields.get("packs", ()))
        state = MountState(**fields)
        return state if isinstance(state.mountpoint, str) else None
    except (FileNotFoundError, ValueError, TypeError, KeyError, AttributeError):
        return None


def _path(directory: str, mountpoint: str) -> str:
    return os.path.join(directory, _stem(mountpoint) + ".json")
