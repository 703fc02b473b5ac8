"""Checks the mount of a user who is not root, as that user, as root, and as another user.

Started by the tests as ordinary_user.py is, with the same arguments. Prints status and text
of each as JSON.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

from ffrfs.mount.client.health import check_mounts
from ffrfs.mount.client.unmount import unmount_all
from ffrfs.mount.kernel.options import MountOptions
from tests.mount.ordinary_user import become, open_fuse_to_all, start_daemon

OTHER_USER_ID = 65533
TIMEOUT_S = 20.0  # the machine may be busy


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


def serve(pack: str, place: Path, user_id: int, answer_to: int) -> None:
    become(user_id)
    daemon_id, answer = start_daemon(pack, place, MountOptions())
    assert answer == "ready", answer
    os.write(answer_to, str(daemon_id).encode())
    os.close(answer_to)
    os.waitpid(daemon_id, 0)


def main() -> None:
    pack, home, user_id = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    open_fuse_to_all(home)
    os.environ["XDG_RUNTIME_DIR"] = str(home)
    place = home / "mount"
    reading, writing = os.pipe()
    server_id = os.fork()
    if server_id == 0:
        try:
            serve(pack, place, user_id, writing)
        finally:
            os._exit(0)
    os.close(writing)
    daemon_id = int(os.read(reading, 4096))
    seen = {
        "user": check_as(user_id, place),
        "root": check(place),
        "other": check_as(OTHER_USER_ID, place),
    }
    os.kill(daemon_id, signal.SIGKILL)
    os.waitpid(server_id, 0)
    deadline_s = time.monotonic() + TIMEOUT_S
    while (dead := check(place))[0] == "ok" and time.monotonic() < deadline_s:
        time.sleep(0.05)
    seen["dead"] = dead
    for _ in unmount_all():
        pass
    print(json.dumps(seen))


if __name__ == "__main__":
    main()
