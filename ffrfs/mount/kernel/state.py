"""The state file of a mount, by which a daemon informs other processes: small JSON, one each.

It is in the runtime directory, which belongs to one user: /run/ffrfs for root,
$XDG_RUNTIME_DIR/ffrfs for others, else /tmp/ffrfs-UID: the first that can be used. In a user
namespace UID is that outside of it: each user may be 0 inside, and all may have the same /tmp.
`ffrfs umount` reads which daemon serves a mount and what to clean up after a dead daemon,
`ffrfs ps` reads the list of mounts. A mount whose runtime directory was removed serves on.
When a mount has ended, its file gets another name, for `ffrfs log`; kept_logs.py removes it.

Concurrency: code that makes or removes a mount holds the lock of its runtime directory
(runtime_lock.py) from looking to acting. Files are replaced whole, so readers need no lock.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ffrfs.errors import MountError, describe, is_shortage
from ffrfs.files.staged_file import StagedFile
from ffrfs.mount.kernel import control_socket
from ffrfs.mount.kernel import mountpoint as mount_point
from ffrfs.mount.kernel.known_fields import is_sound, known_fields
from ffrfs.mount.kernel.pack_versions import Version
from ffrfs.mount.kernel.process import Process
from ffrfs.mount.kernel.runtime_lock import locked
from ffrfs.mount.kernel.user_id import outside_id

# Endings of the names of files in a runtime directory.
LIVE, ENDED, LOG, OLDER_LOG, SOCKET = ".json", ".ended", ".log", ".log.1", ".sock"
KEPT = (OLDER_LOG, LOG, ENDED)  # kept after the end of a mount

_ROOT_DIRECTORY = "/run/ffrfs"
_MODE = 0o600  # of the files
_TOUCHED_S = 24 * 3600  # programs that clean /tmp remove files that are days old
_OTHER = "set XDG_RUNTIME_DIR to a directory of your own"
_ADVICE = f"a mount's daemon keeps its state there; make room there, make it writable, or {_OTHER}"


@dataclass(frozen=True, kw_only=True)
class MountState:
    """A mount, as its daemon recorded it."""

    mountpoint: str
    pack: str  # the mounted packs, for people
    process: Process
    created_mountpoint: bool
    log_file: str | None  # None: a foreground daemon's stderr
    # Files of older versions lack these.
    journal: str | None = None  # journalctl's argument for this log, if stderr is the journal
    packs: tuple[str, ...] = ()
    began_s: float | None = None  # of time.time()
    versions: dict[str, Version] = field(default_factory=dict, hash=False)  # of the packs' files
    guardian: Process | None = None  # starts another daemon if this one dies
    is_managed: bool = False  # the service manager does, unless it has given up
    began_monotonic_s: float | None = None  # of time.monotonic(), valid until the next boot
    device: str | None = None  # as in MountEntry; None also until it is mounted

    @property
    def age_s(self) -> float:
        """How long the mount has been there, whatever the clock was set to; for its daemons."""
        if self.began_monotonic_s is not None:
            return time.monotonic() - self.began_monotonic_s
        return 0.0 if self.began_s is None else max(time.time() - self.began_s, 0.0)

    @property
    def identity(self) -> object:
        """The identity of the mount, whichever of its daemons has recorded it."""
        return self.mountpoint, self.began_s, self.began_monotonic_s

    def is_same_mount(self, other: MountState | None) -> bool:
        """Return whether `other` exists and is a state of the same mount."""
        return other is not None and other.identity == self.identity

    @property
    def is_guarded(self) -> bool:
        """Whether a daemon serves the mount, or will soon: in this PID namespace (see lives())."""
        return self.process.is_alive() or (self.guardian is not None and self.guardian.is_alive())


def runtime_directory(*, make: bool = True) -> str:
    """Return the directory of this user's daemons: the first place that can be used.

    It is made if missing, unless `make` is False. A place that cannot be made or written to is
    skipped; a place where another user has made something, or may do so, is refused.
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


def next_directory() -> tuple[str, list[str]]:
    """Return the directory of a daemon that goes on with a mount, and why no earlier one is used.

    If none can be used, it is a path where no file can be made: nothing may end the mount.
    """
    failures = []
    for path in runtime_directories():
        try:
            _claim(path, make=True)
        except (MountError, OSError) as error:
            failures.append(f"the daemon's state is not in {path}: {describe(error)}")
        else:
            return path, failures
    return os.devnull, failures


@contextlib.contextmanager
def writing_to(directory: str) -> Iterator[None]:
    """Raise OSErrors of the block with the name of the directory, and advice."""
    try:
        yield
    except OSError as error:
        if is_shortage(error):
            raise  # the directory is not to blame
        raise OSError(error.errno, f"{error.strerror}: {_ADVICE}", directory) from None


def log_path(directory: str, mountpoint: str) -> str:
    """Return the path of the log of daemons of the place that have no --log-file."""
    return os.path.join(directory, _stem(mountpoint) + LOG)


def socket_path(directory: str, mountpoint: str) -> str:
    """Return the path of the control socket (control_socket.py), removed with the mount."""
    return os.path.join(directory, _stem(mountpoint) + SOCKET)


def save(directory: str, state: MountState) -> None:
    with writing_to(directory):
        path = _path(directory, state.mountpoint)
        with StagedFile(path, follow=False, mode=_MODE) as staged:
            staged.write(json.dumps(asdict(state)).encode("ascii"))
            staged.publish(sync=False)


def keep(directory: str, mountpoint: str) -> bool:
    """Return whether file and socket are there; once a day, touch all files of the mount."""
    stem = os.path.join(directory, _stem(mountpoint))
    try:
        os.lstat(stem + SOCKET)
        age_s = time.time() - os.stat(stem + LIVE).st_mtime
    except OSError:
        return False
    for ending in () if 0 <= age_s < _TOUCHED_S else (LIVE, LOG, OLDER_LOG, SOCKET):
        with contextlib.suppress(OSError):
            os.utime(stem + ending)
    return True


def load(directory: str, mountpoint: str) -> MountState | None:
    """Return the state of the mount, or None if there is no readable file."""
    return _read(_path(directory, mountpoint))


def load_all() -> list[tuple[str, MountState]]:
    """Return all mounts in this user's runtime directories, each once, with its directory."""
    found: dict[object, list[tuple[str, MountState]]] = {}
    for directory in own_directories():
        for name in sorted(os.listdir(directory)):
            path = os.path.join(directory, name)
            state = _read(path) if name.endswith(LIVE) else None
            if state is not None and _path(directory, state.mountpoint) == path:
                found.setdefault(state.identity, []).append((directory, state))
    return [max(same, key=_life) if len(same) > 1 else same[0] for same in found.values()]


def find(mountpoint: str) -> tuple[str, MountState] | None:
    """Return the mount's runtime directory and its state there, or None.

    A second directory may know a dead daemon: another session's, one from before a reboot, or one
    whose next daemon could not use it.
    """
    found = [
        (directory, state)
        for directory in own_directories()
        if (state := load(directory, mountpoint)) is not None
    ]
    return max(found, key=_life, default=None)


def _life(known: tuple[str, MountState]) -> tuple[bool, bool]:
    """Return whether its daemon lives, and whether a daemon lives or will follow: a sort key."""
    return known[1].process.is_alive(), lives(*known)


def lives(directory: str, known: MountState) -> bool:
    """Return whether a daemon serves the mount, or will soon, in whatever PID namespace."""
    return living_pid(directory, known) is not None


def living_pid(directory: str, known: MountState) -> int | None:
    """Return a process with the mount's namespace, by its number here; None: no daemon lives.

    0: the daemon is in a PID namespace that this one does not see. The numbers in the state belong
    to the daemon's own namespace: a daemon that is dead by them is asked through its socket.
    """
    for process in (known.process, known.guardian):
        if process is not None and process.is_alive():
            return process.pid
    pid = control_socket.listener_pid(socket_path(directory, known.mountpoint))
    # A killed daemon listens until its last thread has left the kernel.
    return None if pid and Process.of(pid) is None else pid


def of_fields(values: dict[str, Any]) -> MountState:
    """Return the state from the `values` of asdict() in a daemon of any version.

    Raises errors of any kind.
    """
    values = known_fields(MountState, values)
    values["process"] = Process(**known_fields(Process, values["process"]))
    if guardian := values.get("guardian"):
        values["guardian"] = Process(**known_fields(Process, guardian))
    return MountState(**values | {"packs": tuple(values.get("packs", ()))})


def find_ended(mountpoint: str) -> tuple[str, MountState] | None:
    """Return directory and state of the place's last mount, if it ended within some days."""
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
    """Forget a mount that was unmounted, and remove the files that were made for it.

    It does nothing if another daemon has taken the place since. Both the daemon and
    `ffrfs umount` may call it, in any order.
    """
    with locked(directory):
        if load(directory, state.mountpoint) == state:
            forget(directory, state)


def forget(directory: str, state: MountState) -> None:
    """Forget a mount as release() does; the caller holds the lock and owns the place.

    The state file stays under another name, and so does the log.
    """
    live = _path(directory, state.mountpoint)
    # Another process may have removed it; or it stays, and its process shows that it is dead.
    with contextlib.suppress(OSError):
        ended = os.path.join(directory, _stem(state.mountpoint) + ENDED)
        os.replace(live, ended)
        os.utime(ended)  # it is kept for some days from now on
    _remove_rest(directory, state)


def withdraw(directory: str, state: MountState) -> None:
    """Remove all files of a mount that never came up."""
    with contextlib.suppress(OSError):
        os.unlink(_path(directory, state.mountpoint))
    _remove_rest(directory, state)


def withdraw_others(directory: str, state: MountState) -> None:
    """Remove all files of the mount but those in `directory`: earlier daemons have used others."""
    for other in own_directories():
        if other != directory and state.is_same_mount(load(other, state.mountpoint)):
            withdraw(other, replace(state, created_mountpoint=False))


def _remove_rest(directory: str, state: MountState) -> None:
    with contextlib.suppress(OSError):
        os.unlink(socket_path(directory, state.mountpoint))
    if state.created_mountpoint:
        mount_point.remove(state.mountpoint)


def _claim(path: str, make: bool) -> None:
    """Raise the reason why the path cannot be the runtime directory."""
    with writing_to(path):
        if not make and not os.path.lexists(path):
            _check_can_make(path)
            return
        with contextlib.suppress(FileExistsError):
            os.makedirs(path, mode=0o700)
    found = os.lstat(path)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        advice = f"remove it, or {_OTHER}"
        raise MountError(f"{path}: must be a directory of user {os.geteuid()}; {advice}")
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
    """Raise the reason why no file can be made in the directory."""
    import tempfile  # here, not above: hardly any mount needs it

    tempfile.TemporaryFile(dir=path).close()


def runtime_directories() -> list[str]:
    """Return the candidates for runtime_directory(), in order."""
    user_id = os.geteuid()
    # In a user namespace of our own the directory is the real root's.
    is_root = user_id == 0 and _owner(_ROOT_DIRECTORY) in (0, None)
    paths = [_ROOT_DIRECTORY] if is_root else []
    outer_id = outside_id(user_id)
    if session := _session_directory(user_id, outer_id):
        paths.append(os.path.join(session, "ffrfs"))
    return [*paths, f"/tmp/ffrfs-{outer_id}"]


def advice_for_two(directory: str) -> str:
    """Return advice on how two containers of one user can mount at the same place.

    A daemon removes the directory that it has made, and so a mount there that it does not see.
    """
    own = directory if directory == _ROOT_DIRECTORY else "XDG_RUNTIME_DIR"
    return (
        "choose another mount point; for the same one in several containers, make its directory "
        f"before, and give each of them a {own} of its own"
    )


def _session_directory(user_id: int, outer_id: int) -> str | None:
    """Return XDG_RUNTIME_DIR, or without it (su, cron) the usual directory of a login."""
    path = os.environ.get("XDG_RUNTIME_DIR", "")
    if not os.path.isabs(path):
        path = f"/run/user/{outer_id}"
    elif user_id != 0:
        return path
    # Root may have inherited another user's directory, and that user could plant files there.
    return path if _owner(path) == user_id else None


def _owner(path: str) -> int | None:
    try:
        return os.lstat(path).st_uid
    except OSError:
        return None


def own_directories() -> list[str]:
    """Return the runtime directories that exist and belong to this user."""
    found = []
    earlier = f"/tmp/ffrfs-{os.geteuid()}"  # of earlier versions in a user namespace
    for directory in dict.fromkeys([*runtime_directories(), earlier]):
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
            state = of_fields(json.load(file))
        return state if is_sound(vars(state)) else None
    except (OSError, LookupError, ValueError, TypeError, AttributeError, ArithmeticError):
        return None
    except RecursionError:  # of deep JSON
        return None


def _path(directory: str, mountpoint: str) -> str:
    return os.path.join(directory, _stem(mountpoint) + LIVE)
