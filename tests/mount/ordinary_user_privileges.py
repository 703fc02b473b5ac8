"""What the daemon and the worker of a user who is not root may do, and that they unmount.

Started by the tests as ordinary_user.py is, with the same arguments. Prints as JSON what
/proc tells of both.
"""

from __future__ import annotations

import json
import os

from ffrfs.mount.client.unmount import unmount
from ffrfs.mount.kernel import state
from ffrfs.mount.kernel.options import TreeOptions
from ffrfs.mount.kernel.process import Process
from tests.mount.command import children
from tests.mount.ordinary_user import become, begin, start_daemon
from tests.mount.process_status import privileges


def told(pid: int) -> dict[str, list[int]]:
    return {field: sorted(values) for field, values in privileges(pid).items()}


def main() -> None:
    pack, home, place, user_id, engine = begin()
    become(user_id)
    daemon_id, answer = start_daemon(pack, place, TreeOptions(), engine)
    assert answer == "ready", answer
    daemon = Process.of(daemon_id)
    assert daemon is not None
    seen = {
        "daemon": told(daemon_id),
        "workers": [told(worker.pid) for worker in children(daemon)],
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
