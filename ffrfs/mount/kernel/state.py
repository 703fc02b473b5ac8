"""What a daemon leaves on disk for other processes: one small JSON file per mount.

It is in the runtime directory, which belongs to one user: /run/ffrfs for root,
$XDG_RUNTIME_DIR/ffrfs for others, else /tmp/ffrfs-UID: the first that can be used.
`ffrfs umount` learns from it who serves a mount and what to clean up after a daemon that
died, `ffrfs ps` what there is. A mount whose runtime directory was removed serves on.
When a mount has ended, its file gets another name, for `ffrfs log`; kept_logs.py removes it.

Concurrency: what makes or removes a mount holds the lock of its runtime directory
(locked()) from looking to acting. Files are replaced whole, so readers need no lock.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import stat
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from ffrfs.errors import MountError, is_shortage
from ffrfs.files.staged_file import StagedFile
from ffrfs.mount.kernel import mountpoint as mount_point
from ffrfs.mount.kernel.process import Process

# What the names of files in a runtime directory end in.
LIVE, ENDED, LOG, OLDER_LOG = ".json", ".ended", ".log", ".log.1"
KEPT = (OLDER_LOG, LOG, ENDED)  # after the end of a mount

_ROOT_DIRECTORY = "/run/ffrfs"
_MODE = 0o600  # of the files
_ADVICE = (
    "a mount's daemon keeps its state there; make room there, make it writable, or set "
    "XDG_RUNTIME_DIR to a directory of your own"
)


@dataclass(frozen=True, kw_only=True)
class MountState:
    """One mount, as its daemon wrote it down."""

    mountpoint: str
    pack: str  # what is mounted, for people
    process: Process
    created_mountpoint: bool
    log_file: str | None  # None: a foreground daemon's stderr
    # Not in the files of older versions.
    journal: str | None = None  # journalctl's words for this log, if stderr is the journal
    packs: tuple[str, ...] = ()
    began_s: float | None = None  # of time.time()


def runtime_directory(*, make: bool = True) -> str:
    """Where this user's daemons are known: the first place that can be used.

    Made if missing, unless `make` is False. A place that cannot be made or written to is
    passed over; one where somebody else has put something, or may, is refused.
    """
    failure: OSError | None = None
    for path in runtime_directories():
        try:
            _claim(path, make)
        except MountError:
            raise
        except OSError as error:
            failure = error
        else:
            return path
    assert failure is not None
    raise failure


@contextlib.contextmanager
def writing_to(directory: str) -> Iterator[None]:
    """Make what fails there an error that names the directory, and says what to do."""
    try:
        yield
    except OSError as error:
        if is_shortage(error):
            raise  # the directory is not to blame
        raise OSError(error.errno, f"{error.strerror}: {_ADVICE}", directory) from None


@contextlib.contextmanager
def locked(directory: str) -> Iterator[None]:
    """Hold the directory's lock; it ends with the process at the latest.

    There is none in a directory that was removed under a daemon, and no need of one.
    """
    try:
        fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        yield
        return
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


@contextlib.contextmanager
def locked_now(directory: str) -> Iterator[bool]:
    """The same without waiting; False: another process holds it, or there is no directory."""
    try:
        fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        yield False
        return
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(fd)


def log_path(directory: str, mountpoint: str) -> str:
    """The log of a daemon that was given none, and of those before it at the same place."""
    return os.path.join(directory, _stem(mountpoint) + LOG)


def socket_path(directory: str, mountpoint: str) -> str:
    """Where the daemon is asked (control_socket.py); it goes when the mount goes."""
    return os.path.join(directory, _stem(mountpoint) + ".sock")


def save(directory: str, state: MountState) -> None:
    with writing_to(directory):
        path = _path(directory, state.mountpoint)
        with StagedFile(path, follow=False, mode=_MODE) as staged:
            staged.write(json.dumps(asdict(state)).encode("ascii"))
            staged.publish(sync=False)


def load(directory: str, mountpoint: str) -> MountState | None:
    """What is known of that mount; None: nothing, or nothing that can be read."""
    return _read(_path(directory, mountpoint))


def load_all() -> list[tuple[str, MountState]]:
    """All mounts that this user's runtime directories know, with the directory of each."""
    found = []
    for directory in own_directories():
        for name in sorted(os.listdir(directory)):
            path = os.path.join(directory, name)
            state = _read(path) if name.endswith(LIVE) else None
            if state is not None and _path(directory, state.mountpoint) == path:
                found.append((directory, state))
    return found


def find(mountpoint: str) -> tuple[str, MountState] | None:
    """The runtime directory that knows the mount, and what it knows.

    Of two that do, one may know a dead daemon only: another session's, or before a reboot.
    """
    found = [
        (directory, state)
        for directory in own_directories()
        if (state := load(directory, mountpoint)) is not None
    ]
    alive = (known for known in found if known[1].process.is_alive())
    return next(alive, found[0] if found else None)


def find_ended(mountpoint: str) -> tuple[str, MountState] | None:
    """As find(), for the mount that was the last there to end, within some days."""
    found = []
    for directory in own_directories():
        path = os.path.join(directory, _stem(mountpoint) + ENDED)
        state = _read(path)
        if state is not None and state.mountpoint == mountpoint:
            with contextlib.suppress(FileNotFoundError):
                found.append((os.stat(path).st_mtime_ns, directory, state))
    if not found:
        return None
    _, directory, state = max(found, key=lambda one: one[0])
    return directory, state


def release(directory: str, state: MountState) -> None:
    """Forget a mount that was taken away, and remove what was made for it.

    Does nothing if another daemon has taken the place since. Both the daemon and
    `ffrfs umount` may call it, in any order.
    """
    with locked(directory):
        if load(directory, state.mountpoint) == state:
            forget(directory, state)


def forget(directory: str, state: MountState) -> None:
    """As release(), for the holder of the lock who knows that the place is his.

    What was written down of the mount stays under another name, and so does its log.
    """
    live = _path(directory, state.mountpoint)
    # Removed by others; or what stays is known to be dead by its process.
    with contextlib.suppress(OSError):
        ended = os.path.join(directory, _stem(state.mountpoint) + ENDED)
        os.replace(live, ended)
        os.utime(ended)  # from now on it is kept for some days
    _remove_rest(directory, state)


def withdraw(directory: str, state: MountState) -> None:
    """As forget(), of a mount that never was: nothing stays."""
    with contextlib.suppress(OSError):
        os.unlink(_path(directory, state.mountpoint))
    _remove_rest(directory, state)


def _remove_rest(directory: str, state: MountState) -> None:
    with contextlib.suppress(OSError):
        os.unlink(socket_path(directory, state.mountpoint))
    if state.created_mountpoint:
        mount_point.remove(state.mountpoint)


def _claim(path: str, make: bool) -> None:
    """Raise why it cannot be the runtime directory."""
    with writing_to(path):
        if not make and not os.path.lexists(path):
            _check_can_make(path)
            return
        with contextlib.suppress(FileExistsError):
            os.makedirs(path, mode=0o700)
    found = os.lstat(path)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise MountError(f"{path}: must be a directory of user {os.geteuid()}; remove it")
    if stat.S_IMODE(found.st_mode) & 0o077:
        raise MountError(f"{path}: must be closed to other users; run: chmod 700 {path}")
    if not os.access(path, os.W_OK | os.X_OK):
        with writing_to(path):
            _try_to_write(path)


def _check_can_make(path: str) -> None:
    above = os.path.dirname(path)
    while not os.path.lexists(above):
        above = os.path.dirname(above)
    if not os.access(above, os.W_OK | os.X_OK):
        _try_to_write(above)


def _try_to_write(path: str) -> None:
    """Raise why no file can be made in that directory."""
    import tempfile  # here, not above: hardly any mount comes here

    tempfile.TemporaryFile(dir=path).close()


def runtime_directories() -> list[str]:
    """Where runtime_directory() looks, in this order."""
    user_id = os.geteuid()
    # In a user namespace of our own it is the real root's.
    is_root = user_id == 0 and _owner(_ROOT_DIRECTORY) in (0, None)
    paths = [_ROOT_DIRECTORY] if is_root else []
    if session := _session_directory(user_id):
        paths.append(os.path.join(session, "ffrfs"))
    return [*paths, f"/tmp/ffrfs-{user_id}"]


def _session_directory(user_id: int) -> str | None:
    """XDG_RUNTIME_DIR; where nothing says so (su, cron), where that is for a login."""
    path = os.environ.get("XDG_RUNTIME_DIR", "")
    if not os.path.isabs(path):
        path = f"/run/user/{user_id}"
    elif user_id != 0:
        return path
    # Root may have been given another user's, who could put something else there.
    return path if _owner(path) == user_id else None


def _owner(path: str) -> int | None:
    try:
        return os.lstat(path).st_uid
    except OSError:
        return None


def own_directories() -> list[str]:
    """Those that are there, and not somebody else's, under our name."""
    found = []
    for directory in runtime_directories():
        with contextlib.suppress(OSError):
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
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def _path(directory: str, mountpoint: str) -> str:
    return os.path.join(directory, _stem(mountpoint) + LIVE)
