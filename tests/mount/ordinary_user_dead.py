"""Kills the daemon of a user who is not root, and looks at its mount as root.

Started by the tests as ordinary_user.py is, with the same arguments. Prints what was seen
as JSON.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

from ffrfs.mount.kernel.dead_mount import detach_dead, is_dead
from ffrfs.mount.kernel.mount_table import mount_at
from ffrfs.mount.kernel.options import MountOptions
from tests.mount.ordinary_user import become, open_fuse_to_all, start_daemon

DYING_TIMEOUT_S = 5.0  # of a worker


def serve(pack: str, place: Path, user_id: int, engine: str, answer_to: int) -> None:
    """Answer with the daemon's process number, or why there is none."""
    become(user_id)
    daemon_id, answer = start_daemon(pack, place, MountOptions(), engine)
    os.write(answer_to, (str(daemon_id) if answer == "ready" else answer).encode())
    os.close(answer_to)
    os.waitpid(daemon_id, 0)


def main() -> None:
    pack, home, user_id, engine = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    open_fuse_to_all(home)
    os.environ["XDG_RUNTIME_DIR"] = str(home)
    place = home / "mount"
    reading, writing = os.pipe()
    server_id = os.fork()
    if server_id == 0:
        try:
            serve(pack, place, user_id, engine, writing)
        finally:
            os._exit(0)
    os.close(writing)
    daemon_id = int(os.read(reading, 4096))
    there = mount_at(str(place))
    assert there is not None
    seen: dict[str, object] = {"live": is_dead(there)}
    os.kill(daemon_id, signal.SIGKILL)
    os.waitpid(server_id, 0)
    seen["dead"] = is_dead(there, DYING_TIMEOUT_S)
    seen["taken"] = len(detach_dead(str(place)))
    seen["left"] = mount_at(str(place)) is not None
    print(json.dumps(seen))


if __name__ == "__main__":
    main()
