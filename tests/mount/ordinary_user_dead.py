"""Kills the daemon of a user who is not root, and looks at its mount as root.

Started by the tests as ordinary_user.py is, with the same arguments. Prints what was seen
as JSON.
"""

from __future__ import annotations

import json
import os
import signal

from ffrfs.mount.kernel.dead_mount import detach_dead, is_dead
from ffrfs.mount.kernel.mount_table import mount_at
from tests.mount.ordinary_user import begin, serve_as_user

DYING_TIMEOUT_S = 60.0  # of a worker


def main() -> None:
    given = begin()
    place = given.place
    server_id, daemon_id = serve_as_user(given)
    there = mount_at(str(place))
    assert there is not None
    seen: dict[str, object] = {"live": is_dead(there)}
    os.kill(int(daemon_id), signal.SIGKILL)
    os.waitpid(server_id, 0)
    seen["dead"] = is_dead(there, DYING_TIMEOUT_S)
    seen["taken"] = len(detach_dead(str(place)))
    seen["left"] = mount_at(str(place)) is not None
    print(json.dumps(seen))


if __name__ == "__main__":
    main()
