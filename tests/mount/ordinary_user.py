"""Scenes of a user who is not root and mounts through fusermount3.

The tests start this as a program, as root, in a mount namespace of its own (unshare -m):
ordinary_user.py PACK HOME USER-ID [ENGINE [SCENE]], where SCENE is a name in SCENES. It opens
/dev/fuse there to all users, as on most systems. It loads all modules while it is still root, as
the user may have no access to them; the worker program must be in a place that the user can
reach (FFRFS_WORKER). It prints its findings as JSON.
"""

from __future__ import annotations

import codecs
import contextlib
import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

from ffrfs.mount.client import unmount as unmounting
from ffrfs.mount.client.health import check_mounts
from ffrfs.mount.client.mount_statuses import mount_statuses
from ffrfs.mount.client.unmount import unmount, unmount_all
from ffrfs.mount.config.request import MountRequest
from ffrfs.mount.daemon import daemon
from ffrfs.mount.engines import native_engine, pyfuse3_engine
from ffrfs.mount.kernel import state
from ffrfs.mount.kernel.dead_mount import detach_dead, is_dead
from ffrfs.mount.kernel.mount_table import mount_at, read_mount_table
from ffrfs.mount.kernel.options import TreeOptions
from ffrfs.mount.kernel.process import Process
from tests.mount.command import (
    children,
    engine_settings,
    is_guardian,
    kill_for_good,
    wait_until,
)
from tests.mount.process_status import privileges

# Loaded now, as root, though they are used only later.
assert native_engine.Worker
assert pyfuse3_engine.pyfuse3
codecs.lookup("ascii")

FUSE_DEVICE = "/dev/fuse"
NAMELESS = 1_987_654_321  # without an entry in /etc/passwd
OTHER_USER_ID = 65533
TIMEOUT_S = 60.0  # the machine may be busy

Seen = dict[str, Any]  # what a scene prints


def open_fuse_to_all(home: Path) -> None:
    node = home.parent / "fuse"
    os.mknod(node, stat.S_IFCHR | 0o666, os.stat(FUSE_DEVICE).st_rdev)
    node.chmod(0o666)
    subprocess.run(["mount", "--bind", str(node), FUSE_DEVICE], check=True, timeout=20)


class Arguments(NamedTuple):
    pack: str
    home: Path
    place: Path  # the mount point
    user_id: int
    engine: str


def begin() -> Arguments:
    """Prepare one of these programs, still as root, and return its arguments."""
    pack, home, user_id = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    engine = sys.argv[4] if len(sys.argv) > 4 else "pyfuse3"
    open_fuse_to_all(home)
    os.environ["XDG_RUNTIME_DIR"] = str(home)
    return Arguments(pack, home, home / "mount", user_id, engine)


def become(user_id: int) -> None:
    os.setgroups([])
    os.setresgid(user_id, user_id, user_id)
    os.setresuid(user_id, user_id, user_id)


def say(fd: int, text: str) -> None:
    os.write(fd, text.encode())


def start_daemon(
    pack: str, place: Path, options: TreeOptions, engine: str = "pyfuse3"
) -> tuple[int, str]:
    """Return its process number, and "ready" or its error."""
    reading, writing = os.pipe()
    daemon_id = os.fork()
    if daemon_id == 0:
        os.close(reading)
        settings = engine_settings(engine)
        request = MountRequest(packs=(pack,), mountpoint=str(place), options=options, **settings)
        try:
            daemon.serve(request, lambda _: say(writing, "ready"), foreground=True)
        except Exception as error:
            say(writing, str(error))
        finally:
            os._exit(0)
    os.close(writing)
    answer = os.read(reading, 4096).decode()
    os.close(reading)
    return daemon_id, answer


def serve_as_user(given: Arguments, tell: Callable[[int], str] = str) -> tuple[int, str]:
    """Mount in a child process that becomes the user, and ends with the daemon.

    Return its number, and the result of `tell(daemon_id)` there, or the error of the mount.
    """
    reading, writing = os.pipe()
    server_id = os.fork()
    if server_id == 0:
        try:
            become(given.user_id)
            daemon_id, answer = start_daemon(given.pack, given.place, TreeOptions(), given.engine)
            say(writing, tell(daemon_id) if answer == "ready" else answer)
            os.close(writing)
            os.waitpid(daemon_id, 0)
        finally:
            os._exit(0)
    os.close(writing)
    told = os.read(reading, 4096).decode()
    os.close(reading)
    return server_id, told


def refusal_of_nameless(given: Arguments) -> str:
    home = given.home.parent / "nameless"
    (home / "mount").mkdir(parents=True)
    for place in (home, home / "mount"):
        os.chown(place, NAMELESS, NAMELESS)
    os.environ["XDG_RUNTIME_DIR"] = str(home)
    nameless = given._replace(home=home, place=home / "mount", user_id=NAMELESS)
    server_id, answer = serve_as_user(nameless)
    os.waitpid(server_id, 0)
    os.environ["XDG_RUNTIME_DIR"] = str(given.home)
    return answer


def mount_as_user(given: Arguments, options: TreeOptions | None = None) -> int:
    """Return the daemon's process number. This process must be the user."""
    daemon_id, answer = start_daemon(
        given.pack, given.place, options or TreeOptions(), given.engine
    )
    assert answer == "ready", answer
    return daemon_id


def unmount_and_look(given: Arguments, daemon_id: int) -> list[str]:
    """Return what is left in the user's home."""
    unmount(str(given.place))
    os.waitpid(daemon_id, 0)
    return left_in(given.home)


def left_in(home: Path) -> list[str]:
    return sorted(path.name for path in home.rglob("*") if not path.name.endswith(state.KEPT))


def mounts(given: Arguments) -> Seen:
    """Mount, read and unmount, idle and busy; then try options that may be refused."""
    place = given.place
    seen: Seen = {"nameless": refusal_of_nameless(given)}
    become(given.user_id)

    daemon_id = mount_as_user(given, TreeOptions(fsname=r"a,b\c d"))
    entry = mount_at(str(place))
    seen["mount"] = entry and [entry.fstype, entry.source]
    seen["bytes"] = (place / "file").read_text()
    seen["owner"] = (place / "file").stat().st_uid
    with (place / "file").open() as file:
        seen["busy"] = unmount(str(place)).was_busy
        seen["gone"] = not place.exists()
        seen["late bytes"] = file.read()
    os.waitpid(daemon_id, 0)

    daemon_id = mount_as_user(given)
    seen["idle"] = unmount(str(place)).was_busy
    os.waitpid(daemon_id, 0)

    daemon_id, seen["nosymfollow"] = start_daemon(
        given.pack, place, TreeOptions(symfollow=False), given.engine
    )
    if seen["nosymfollow"] == "ready":  # a newer fusermount3 knows the option
        unmount(str(place))
        os.waitpid(daemon_id, 0)
    _, seen["refusal"] = start_daemon(
        given.pack, place, TreeOptions(allow_other=True), given.engine
    )
    seen["left"] = left_in(given.home)
    return seen


def unmounts_for_a_program(given: Arguments) -> Seen:
    """Unmount busy mounts in a program that has another language, or ignores SIGCHLD."""
    become(given.user_id)
    seen: Seen = {}
    for name, change in (
        ("language", patch.object(os, "strerror", lambda _: "belegt")),
        ("ends", ignoring_ends()),
    ):
        daemon_id = mount_as_user(given)
        with (given.place / "file").open() as file:
            with change:
                was_busy = unmount(str(given.place)).was_busy
            seen[name] = [was_busy, mount_at(str(given.place)) is None, file.read()]
        os.waitpid(daemon_id, 0)
    return seen | {"left": left_in(given.home)}


@contextlib.contextmanager
def ignoring_ends() -> Iterator[None]:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGCHLD, before)


def check(place: Path) -> list[str]:
    (health,) = check_mounts([str(place)], TIMEOUT_S)
    return [health.status, health.text]


def check_as(user_id: int, place: Path) -> list[str]:
    reading, writing = os.pipe()
    child_id = os.fork()
    if child_id == 0:
        try:
            become(user_id)
            os.write(writing, json.dumps(check(place)).encode())
        finally:
            os._exit(0)
    os.close(writing)
    os.waitpid(child_id, 0)
    found: list[str] = json.loads(os.read(reading, 4096))
    return found


def checks(given: Arguments) -> Seen:
    """Check a mount as its user, as root and as another user; then again with its daemon killed."""
    place = given.place
    server_id, daemon_id = serve_as_user(given)
    seen = {
        "user": check_as(given.user_id, place),
        "root": check(place),
        "other": check_as(OTHER_USER_ID, place),
    }
    kill_for_good(int(daemon_id))
    os.waitpid(server_id, 0)
    deadline_s = time.monotonic() + TIMEOUT_S
    while (dead := check(place))[0] == "ok" and time.monotonic() < deadline_s:
        time.sleep(0.05)
    detach_dead(str(place))
    return seen | {"dead": dead}


def is_killed(given: Arguments) -> Seen:
    """Kill the daemon, and look at its mount as root."""
    place = given.place
    server_id, daemon_id = serve_as_user(given)
    there = mount_at(str(place))
    assert there is not None
    seen: Seen = {"live": is_dead(there)}
    kill_for_good(int(daemon_id))
    os.waitpid(server_id, 0)
    wait_until(lambda: is_dead(there), "its worker has ended")
    seen["taken"] = len(detach_dead(str(place)))
    seen["left"] = mount_at(str(place)) is not None
    return seen


def spares_others(given: Arguments) -> Seen:
    """As root, list and unmount all, after a daemon of root's own has died at the same place."""
    server_id, daemon_id = serve_as_user(given)
    place, directory = str(given.place), str(given.home.parent / "root")
    os.mkdir(directory, 0o700)
    died = state.MountState(
        mountpoint=place,
        pack=given.pack,
        process=Process(os.getpid(), 0),
        created_mountpoint=False,
        log_file=None,
    )
    state.save(directory, died)
    with (
        patch.object(state, "runtime_directories", lambda: [directory]),
        patch.object(unmounting, "_detach_unknown", lambda: iter(())),
    ):
        seen: Seen = {
            "known": [known == died for _, known in state.load_all()],
            "ps": [one.state for one in mount_statuses() if one.mountpoint == place],
            "unmounted": list(unmount_all()),
            "stays": mount_at(place) is not None,
        }
    kill_for_good(int(daemon_id))
    os.waitpid(server_id, 0)
    detach_dead(place)
    return seen


def has_privileges(given: Arguments) -> Seen:
    """Look up in /proc what the daemon and the worker may do."""

    def told(pid: int) -> dict[str, list[int]]:
        return {field: sorted(values) for field, values in privileges(pid).items()}

    become(given.user_id)
    daemon_id = mount_as_user(given)
    server = Process.of(daemon_id)
    assert server is not None
    seen: Seen = {
        "daemon": told(daemon_id),
        "workers": [told(each.pid) for each in children(server) if not is_guardian(each)],
        "bytes": (given.place / "file").read_text(),
    }
    return seen | {"left": unmount_and_look(given, daemon_id)}


def mounts_again(given: Arguments) -> Seen:
    """As the user, kill the daemon, and mount over the dead mount."""
    place = given.place
    become(given.user_id)
    daemon_id = mount_as_user(given)
    there = mount_at(str(place))
    kill_for_good(daemon_id)
    os.waitpid(daemon_id, 0)
    seen: Seen = {"known": state.find(str(place)) is not None}
    daemon_id = mount_as_user(given)
    seen |= {
        "owner": there and there.user_id,
        "mounts": sum(entry.mountpoint == str(place) for entry in read_mount_table()),
        "bytes": (place / "file").read_text(),
    }
    return seen | {"left": unmount_and_look(given, daemon_id)}


SCENES = {
    scene.__name__: scene
    for scene in (
        *(mounts, unmounts_for_a_program, checks, is_killed, spares_others),
        *(has_privileges, mounts_again),
    )
}


if __name__ == "__main__":
    # begin() comes first: as root, it reads the arguments and prepares /dev/fuse.
    arguments = begin()
    print(json.dumps(SCENES[sys.argv[5]](arguments)))
