"""Kills its daemon as a user who is not root, and mounts again.

Started by the tests as ordinary_user.py is, with the same arguments. Prints what was seen
as JSON.
"""

from __future__ import annotations

import json
import os
import signal

from ffrfs.mount.client.unmount import unmount
from ffrfs.mount.kernel import state
from ffrfs.mount.kernel.mount_table import mount_at, read_mount_table
from ffrfs.mount.kernel.options import TreeOptions
from tests.mount.ordinary_user import become, begin, start_daemon


def main() -> None:
    pack, home, place, user_id, engine = begin()
    become(user_id)

    daemon_id, answer = start_daemon(pack, place, TreeOptions(), engine)
    assert answer == "ready", answer
    there = mount_at(str(place))
    os.kill(daemon_id, signal.SIGKILL)
    os.waitpid(daemon_id, 0)
    seen: dict[str, object] = {"known": state.find(str(place)) is not None}
    daemon_id, answer = start_daemon(pack, place, TreeOptions(), engine)
    assert answer == "ready", answer
    seen |= {
        "owner": there and there.user_id,
        "mounts": sum(entry.mountpoint == str(place) for entry in read_mount_table()),
        "bytes": (place / "file").read_text(),
    }
    unmount(str(place))
    os.waitpid(daemon_id, 0)
    seen["left"] = sorted(
        path.name for path in home.rglob("*") if not path.name.endswith(state.KEPT)
    )
    print(json.dumps(seen))


if __name__ == "__main__":
    main()
