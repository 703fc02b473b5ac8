"""Mounts, reads and unmounts as a user who is not root, through fusermount3.

Started by the tests as a program, by root, in a mount namespace of its own (unshare -m):
ordinary_user.py PACK HOME USER-ID ENGINE. There /dev/fuse is opened to all, as most systems
have it. All modules are loaded while still root, who may be the only one to reach them; the
worker program must be in a place that the user can reach (FFRFS_WORKER). Prints what was
seen as JSON.
"""

from __future__ import annotations

import codecs
import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from ffrfs.mount.client.unmount import unmount
from ffrfs.mount.config.request import MountRequest
from ffrfs.mount.daemon import daemon
from ffrfs.mount.engines import native_engine, pyfuse3_engine
from ffrfs.mount.kernel import state
from ffrfs.mount.kernel.mount_table import mount_at
from ffrfs.mount.kernel.options import TreeOptions
from tests.mount.command import engine_settings

# Loaded now: they are used only later.
assert native_engine.Worker
assert pyfuse3_engine.pyfuse3
codecs.lookup("ascii")

FUSE_DEVICE = "/dev/fuse"
NAMELESS = 1_987_654_321  # without an entry in /etc/passwd


def open_fuse_to_all(home: Path) -> None:
    node = home.parent / "fuse"
    os.mknod(node, stat.S_IFCHR | 0o666, os.stat(FUSE_DEVICE).st_rdev)
    node.chmod(0o666)
    subprocess.run(["mount", "--bind", str(node), FUSE_DEVICE], check=True, timeout=20)


class Arguments(NamedTuple):
    pack: str
    home: Path
    place: Path  # to mount at
    user_id: int
    engine: str


def begin() -> Arguments:
    """What all of these programs begin with; still as root."""
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
    """Its process number, and "ready" or why not."""
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
    """Mount in a child process that is the user, and ends with the daemon.

    Return its number, and what `tell` says there of the daemon's number, or why it did not mount.
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


def main() -> None:
    pack, home, place, user_id, engine = given = begin()
    seen: dict[str, object] = {"nameless": refusal_of_nameless(given)}
    become(user_id)

    daemon_id, answer = start_daemon(pack, place, TreeOptions(fsname=r"a,b\c d"), engine)
    assert answer == "ready", answer
    entry = mount_at(str(place))
    seen["mount"] = entry and [entry.fstype, entry.source]
    seen["bytes"] = (place / "file").read_text()
    seen["owner"] = (place / "file").stat().st_uid
    with (place / "file").open() as file:
        seen["busy"] = unmount(str(place)).was_busy
        seen["gone"] = not place.exists()
        seen["late bytes"] = file.read()
    os.waitpid(daemon_id, 0)

    daemon_id, _ = start_daemon(pack, place, TreeOptions(), engine)
    seen["idle"] = unmount(str(place)).was_busy
    os.waitpid(daemon_id, 0)

    _, seen["refusal"] = start_daemon(pack, place, TreeOptions(allow_other=True), engine)
    seen["left"] = sorted(
        path.name for path in home.rglob("*") if not path.name.endswith(state.KEPT)
    )
    print(json.dumps(seen))


if __name__ == "__main__":
    main()
