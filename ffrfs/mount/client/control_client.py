"""Asks the daemon of a mount, over its control socket (control_server.py).

The mount itself is not touched, so it may stall or be dead. Blocking, no state; from any
thread. control_survey.py asks many daemons at once.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import socket
import time
from typing import Any

from ffrfs.errors import MountError, describe
from ffrfs.mount.kernel import control_socket, state
from ffrfs.mount.kernel.mount_table import MountEntry, mount_at
from ffrfs.mount.kernel.mountpoint import canonical

TIMEOUT_S = 5.0
_NEXT_S = 60.0  # another daemon begins within that, even on a busy machine
_PAUSE_S = 0.02  # between attempts to find it
_ENDING_S = 2.0  # from closing its sockets to its end, on a busy machine
ANSWER_SIZE_MAX = 16 << 20  # holds the answer for as many packs as fit on a command line
CHUNK_SIZE = 1 << 16
_UNKNOWN = "no such command: "  # begins control_server.py's error, in every version


class RestartingError(MountError):
    """The daemon has died, and guardian or service manager have not started another one yet."""


class _RefusedError(MountError):
    """A daemon has answered with an error."""


class UnknownCommandError(_RefusedError):
    """A daemon of an earlier version has no such command."""


def ask(
    mountpoint: str, command: str, timeout_s: float = TIMEOUT_S, **about: int
) -> dict[str, object]:
    """Return the daemon's answer to that command, which must be an object.

    `about`: arguments of some commands.

    Raises MountError if nothing of ffrfs is mounted there, or its daemon is dead, does not
    answer in time, or refuses; RestartingError if it is dead and another one will follow.
    """
    # Callers that have less time for an answer do not wait longer for another daemon.
    next_s = _NEXT_S if timeout_s >= TIMEOUT_S else timeout_s
    client, result = _ask(canonical(mountpoint), request(command, **about), timeout_s, next_s)
    client.close()
    return result


def stats(mountpoint: str | os.PathLike[str], *, timeout_s: float = TIMEOUT_S) -> dict[str, Any]:
    """Return what the mount has done: requests, bytes, memory. Keys as of `ffrfs stats --json`.

    Asks the daemon, not the mount, so it also answers while reads wait for a disk. Raises
    MountError if nothing of ffrfs is mounted there, or its daemon does not answer in time.
    """
    return ask(os.fspath(mountpoint), "stats", timeout_s)


def connect(
    mountpoint: str, command: str, timeout_s: float = TIMEOUT_S
) -> tuple[socket.socket, dict[str, object]]:
    """Return a blocking connection on which the daemon has agreed to that command, and its answer.

    Raises as ask() does.
    """
    client, result = _ask(canonical(mountpoint), request(command), timeout_s, timeout_s)
    client.settimeout(None)
    return client, result


def request(command: str, **about: int) -> bytes:
    """Return the line that asks a daemon."""
    return json.dumps({"command": command, **about}).encode("ascii") + b"\n"


def _ask(
    place: str, line: bytes, timeout_s: float, next_s: float
) -> tuple[socket.socket, dict[str, object]]:
    """`next_s`: how long to wait for another daemon if this one has died."""
    deadline_s = time.monotonic() + next_s
    while True:
        directory, known = _find(place)
        try:
            return _ask_one(directory, known, line, timeout_s)
        except (_RefusedError, RestartingError):
            raise
        except MountError as error:
            failure, has_died = error, not known.process.is_alive()
        except OSError as error:
            daemon = f"its daemon (process {known.process.pid})"
            # The daemon closes its socket a moment before it removes the state of the mount.
            is_there = mount_at(known.mountpoint) is not None
            more = "" if is_there else "; it has been unmounted, or is just about to be"
            failure = MountError(
                f"{known.mountpoint}: cannot ask {daemon}: {describe(error)}{more}"
            )
            left_s = max(deadline_s - time.monotonic(), 0)
            # A daemon may end just after it has recorded a new guardian: the state is read again.
            _, later = state.find(place) or (directory, known)
            is_another = later.process != known.process
            has_next = is_another or later.guardian is not None or known.is_managed
            has_died = has_next and known.process.wait(min(_ENDING_S, left_s))
        # If the daemon has died, its guardian starts another one, which may have taken over since.
        # If the disk is full, only the socket shows that.
        may_be_next = has_died and (
            known.is_managed or state.lives(*(state.find(place) or (directory, known)))
        )
        if not may_be_next:
            raise failure
        if time.monotonic() > deadline_s:
            daemon = f"its daemon (process {known.process.pid})"
            text = f"{daemon} has died; its guardian starts another one"
            raise RestartingError(f"{known.mountpoint}: {text}")
        time.sleep(_PAUSE_S)


def _ask_one(
    directory: str, known: state.MountState, line: bytes, timeout_s: float
) -> tuple[socket.socket, dict[str, object]]:
    """Raises MountError, and OSError if the connection is refused or lost."""
    place, deadline_s = known.mountpoint, time.monotonic() + timeout_s
    daemon = f"its daemon (process {known.process.pid})"
    # If the guardian lives, another daemon may answer at the socket, but not be recorded yet.
    if not state.lives(directory, known):
        umount = f"ffrfs umount {shlex.quote(place)}"
        if known.is_managed:
            text = "has died; the service manager starts another one"
            raise RestartingError(f"{place}: {daemon} {text}; if it does not: {umount}")
        raise MountError(f"{place}: {daemon} has died; remove the mount with: {umount}")
    with contextlib.ExitStack() as failed:
        try:
            client = control_socket.connect(state.socket_path(directory, place), timeout_s)
            failed.enter_context(client)
            answer = _converse(client, line, deadline_s)
        except TimeoutError:
            raise MountError(f"{place}: {daemon} has not answered within {timeout_s:g} s") from None
        match answer:
            case {"result": dict(result)}:
                failed.pop_all()
                return client, result
            case {"error": str(text)}:
                kind = UnknownCommandError if text.startswith(_UNKNOWN) else _RefusedError
                raise kind(f"{place}: {daemon} answers: {text}")
    raise MountError(f"{place}: {daemon} gave an answer that ffrfs does not understand")


def _find(place: str) -> tuple[str, state.MountState]:
    found = state.find(place)
    if found is not None:
        return found
    there = mount_at(place)
    if there is None:
        raise MountError(f"{place}: not mounted")
    raise MountError(f"{place}: {why_unknown(there, 'can ask its daemon')}")


def why_unknown(mount: MountEntry, only_its_user: str) -> str:
    """Return why no state of the mount is known; `only_its_user` completes "only that user …"."""
    if not mount.is_ours:
        return f"not an ffrfs mount, but one of type {mount.fstype}"
    if mount.user_id != os.geteuid():
        return f"mounted by another user; only that user {only_its_user}"
    if first := _first_place(mount):
        return f"it was mounted at {first}, and is bound here, or was moved: name that path"
    return (
        "its daemon cannot be found: its runtime directory was removed, or XDG_RUNTIME_DIR has "
        "changed since it was mounted; remove the mount with: ffrfs umount "
        f"{shlex.quote(mount.mountpoint)}"
    )


def _first_place(mount: MountEntry) -> str | None:
    """Return where a daemon of this user has made a mount that is now at another place, or None.

    The mount of a dead daemon does not count: the kernel gives its device to another mount.
    """
    for directory, known in state.load_all():
        if known.device == mount.device and state.lives(directory, known):
            return known.mountpoint
    return None


def _converse(client: socket.socket, line: bytes, deadline_s: float) -> object:
    """Return the answer to a request; None if it is not JSON."""
    # The daemon may have refused us already; its answer says why.
    with contextlib.suppress(BrokenPipeError):
        client.sendall(line)
    answer = _receive_line(client, deadline_s)
    if not answer:
        raise ConnectionResetError("it closed the connection")
    try:
        return json.loads(answer)
    except (ValueError, RecursionError):
        return None


def _receive_line(client: socket.socket, deadline_s: float) -> bytes:
    line = bytearray()
    while not line.endswith(b"\n") and len(line) <= ANSWER_SIZE_MAX:
        left_s = deadline_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        client.settimeout(left_s)
        chunk = client.recv(CHUNK_SIZE)
        if not chunk:
            break
        line += chunk
    return bytes(line)
