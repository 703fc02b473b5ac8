"""Checks the mount of a user who is not root, as that user, as root, and as another user.

Started by the tests as ordinary_user.py is, with the same arguments. Prints status and text
of each as JSON.
"""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

from ffrfs.mount.client.health import check_mounts
from ffrfs.mount.client.unmount import unmount_all
from tests.mount.ordinary_user import become, begin, serve_as_user

OTHER_USER_ID = 65533
TIMEOUT_S = 60.0  # the machine may be busy


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


def main() -> None:
    given = begin()
    place = given.place
    server_id, daemon_id = serve_as_user(given)
    seen = {
        "user": check_as(given.user_id, place),
        "root": check(place),
        "other": check_as(OTHER_USER_ID, place),
    }
    os.kill(int(daemon_id), signal.SIGKILL)
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
