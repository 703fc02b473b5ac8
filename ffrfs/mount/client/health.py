"""Tells the health of mounts, in one word each and within a second: for monitoring.

For each mount a child process finds its place, asks its daemon, and asks the mount itself by
statfs, which no cache answers. A daemon or mount that hangs holds up that child alone, which has
written before each step what a hang would mean; it is killed, and left behind if the kernel
holds it.

Concurrency: blocking, no state. It forks, so it is for a process with one thread.

Not here: a mount's statistics (control_client.py), the list of mounts (mount_statuses.py).
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import shlex
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Literal, NoReturn

from ffrfs.errors import MountError, describe
from ffrfs.files.interpreter import starting_process
from ffrfs.mount.client import control_client
from ffrfs.mount.kernel import dead_mount, state
from ffrfs.mount.kernel.mount_table import MountEntry, mount_at
from ffrfs.mount.kernel.mountpoint import canonical
from ffrfs.mount.kernel.pack_versions import MOUNT_AGAIN, replaced

TIMEOUT_S = 0.6  # for all mounts together; the rest of a second is for starting and printing
_ANSWER_SHARE = 0.7  # of the time that is left, for the daemon's answer
# Reads have waited so long for storage without getting a byte.
STALL_WARNING_S = 5.0
STALL_CRITICAL_S = 10.0

_STANDARD_FDS = 3

Status = Literal["ok", "warning", "critical"]


@dataclass(frozen=True, kw_only=True)
class Health:
    """The health of one mount; None: unknown."""

    mountpoint: str  # as the caller named it
    status: Status
    text: str  # the reason, in one line
    age_s: float | None = None
    unreadable_files: int | None = None
    read_failures: int | None = None
    storage_stalled_s: float | None = None


def check_mounts(mountpoints: Sequence[str], timeout_s: float = TIMEOUT_S) -> list[Health]:
    """Return the health of each mount, all checked at once. Never raises for a mount."""
    deadline_s = time.monotonic() + timeout_s
    with contextlib.ExitStack() as stack:
        selector = stack.enter_context(selectors.DefaultSelector())
        looks = [stack.enter_context(_Look(path, deadline_s)) for path in mountpoints]
        for look in looks:
            selector.register(look.said, selectors.EVENT_READ, look)
        while selector.get_map() and (left_s := deadline_s - time.monotonic()) > 0:
            for key, _ in selector.select(left_s):
                if not key.data.receive():
                    selector.unregister(key.fileobj)
        return [look.found for look in looks]


class _Look:
    """A child process that checks one mount, and writes its findings, line by line."""

    def __init__(self, mountpoint: str, deadline_s: float) -> None:
        self._mountpoint = mountpoint
        self._text = b""
        self.said, saying = os.pipe()
        try:
            with starting_process():
                self._pid = os.fork()
        except BaseException:
            os.close(self.said)
            os.close(saying)
            raise
        if self._pid == 0:
            _look_as_child(mountpoint, saying, deadline_s)
        os.close(saying)

    def __enter__(self) -> _Look:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.said)
        os.kill(self._pid, signal.SIGKILL)
        # A child that the kernel holds is not waited for: init reaps it when we have ended.
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self._pid, os.WNOHANG)

    def receive(self) -> bool:
        """Take the lines that the child has written; return False at their end."""
        chunk = os.read(self.said, 1 << 16)
        self._text += chunk
        return bool(chunk)

    @property
    def found(self) -> Health:
        """Return the health in the child's last line."""
        *lines, _ = self._text.split(b"\n")
        if lines:
            return Health(**json.loads(lines[-1]))
        text = "a directory on the way to it does not answer"
        return Health(mountpoint=self._mountpoint, status="critical", text=text)


def _look_as_child(mountpoint: str, saying: int, deadline_s: float) -> NoReturn:
    def say(health: Health) -> None:
        os.write(saying, json.dumps(asdict(health)).encode("ascii") + b"\n")

    try:
        os.setsid()  # Ctrl-C must reach the command alone
        # A child that is left behind must not keep open a pipe that is read to its end elsewhere.
        nothing = os.open(os.devnull, os.O_RDWR)
        for fd in range(_STANDARD_FDS):
            os.dup2(nothing, fd)
        try:
            say(_look(mountpoint, deadline_s, say))
        except Exception as error:
            text = describe(error).removeprefix(f"{mountpoint}: ")
            say(Health(mountpoint=mountpoint, status="critical", text=text))
    finally:
        os._exit(0)


def _look(path: str, deadline_s: float, say: Callable[[Health], None]) -> Health:
    place = canonical(path)
    quoted = shlex.quote(place)

    def critical(text: str) -> Health:
        return Health(mountpoint=path, status="critical", text=text.removeprefix(f"{place}: "))

    there = mount_at(place)
    if there is None or (refusal := _refusal(there)):
        return critical("not mounted" if there is None else refusal)
    told: dict[str, object] = {}
    untold = Health(mountpoint=path, status="ok", text="answers; its daemon is not known here")
    known = state.find(place)
    if known is not None:
        try:
            for question in ("stats", "status"):
                timeout_s = max(round((deadline_s - time.monotonic()) * _ANSWER_SHARE, 2), 0.01)
                told |= control_client.ask(place, question, timeout_s)
            if told.get("refusal"):
                raise MountError(f"all reads fail: {_with_advice(str(told['refusal']), quoted)}")
        except control_client.RestartingError as error:  # the worker may serve on meanwhile
            told, untold = {}, replace(critical(str(error)), status="warning")
        except MountError as error:
            return critical(str(error))
    who = "the mount does not answer" + (", though its daemon does" if told else "")
    say(critical(f"{who}; if that stays: ffrfs umount {quoted}"))
    if not _is_served(there):
        return critical(f"dead: its daemon has ended; remove the mount with: ffrfs umount {quoted}")
    if not told:
        return untold
    health = _judged(path, told)
    if health.status == "ok" and known is not None:
        say(health)  # the next step, a look at the packs, may take for ever
        pids = [int(_number(told, name)) for name in ("daemon_pid", "worker_pid")]
        other = replaced(known[1].versions, pids)
        if other is not None:
            text = f"{other} was replaced since it was mounted; the mount shows the old one"
            return replace(health, status="warning", text=text)
    return health


def _refusal(mount: MountEntry) -> str:
    """Return why the mount cannot be asked; "" if it can."""
    if not mount.is_ours:
        return f"not an ffrfs mount, but one of type {mount.fstype}"
    if mount.allows_others or os.geteuid() in (0, mount.user_id):
        return ""
    return f"mounted by user {mount.user_id}, for no others: check it as that user, or as root"


def _with_advice(refusal: str, quoted: str) -> str:
    """Return the reason why no worker serves, with what to do, unless it says that itself."""
    return refusal if MOUNT_AGAIN in refusal else f"{refusal}; try: ffrfs restart {quoted}"


def _is_served(mount: MountEntry) -> bool:
    """Return whether the mount answers. May wait for ever."""
    fd = os.open(mount.mountpoint, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)  # sends no request
    if os.geteuid() == 0 and mount.user_id not in (None, 0) and not mount.allows_others:
        # The kernel lets no other user ask, not even root. The child stays that user.
        os.setgroups([])
        os.setresgid(*[mount.group_id or 0] * 3)
        os.setresuid(*[mount.user_id or 0] * 3)
    try:
        os.fstatvfs(fd)
    except OSError as error:
        if dead_mount.is_end(error):
            return False
        raise
    return True


def _judged(path: str, told: dict[str, object]) -> Health:
    """Return the health of a mount that answers, by the figures of its daemon."""
    age_s, stalled_s = _number(told, "age_s"), _number(told, "storage_stalled_s")
    files, failures = (int(_number(told, name)) for name in ("unreadable_files", "read_failures"))
    status: Status = "ok"
    text = "live"
    remote = told.get("remote")
    quoted = shlex.quote(path)
    moved, changed = (
        int(_number(remote, name)) if isinstance(remote, dict) else 0
        for name in ("moved", "changed")
    )
    if told.get("cache_limited_by") == "memory_pressure":
        status = "warning"
        text = f"memory is short, and its cache has shrunk (see ffrfs stats {quoted})"
    if moved:
        status = "warning"
        text = f"blocks are cached in memory alone, and fetched again (see ffrfs log {quoted})"
    if _number(told, "cache_in_memory"):
        status = "warning"
        text = f"its cache directory cannot be used (see ffrfs log {quoted})"
    if files:
        status = "warning"
        what = "1 file" if files == 1 else f"{files:,} files"
        text = f"{what} could not be read (see ffrfs stats --errors {quoted})"
    if changed:
        status = "warning"
        text = f"a pack at a URL was replaced since it was mounted (see ffrfs log {quoted})"
    if stalled_s >= STALL_WARNING_S:
        status = "critical" if stalled_s >= STALL_CRITICAL_S else "warning"
        text = f"reads have waited for storage for {stalled_s:.0f} s"
    return Health(
        mountpoint=path,
        status=status,
        text=text,
        age_s=age_s,
        unreadable_files=files,
        read_failures=failures,
        storage_stalled_s=stalled_s,
    )


def _number(told: dict[str, object], name: str) -> float:
    """Return the figure; 0 if a daemon of another version does not give it."""
    value = told.get(name)
    return value if isinstance(value, int | float) else 0.0
