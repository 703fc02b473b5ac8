"""Asks the daemon of a user who is not root, as that user and as root.

Started by the tests as ordinary_user.py is, with the same arguments. Prints what was told
as JSON.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from ffrfs.errors import MountError
from ffrfs.mount.client import control_client
from ffrfs.mount.client.unmount import unmount
from ffrfs.mount.kernel import state
from ffrfs.mount.kernel.options import MountOptions
from tests.mount.ordinary_user import become, open_fuse_to_all, start_daemon


def ask(place: Path) -> dict[str, object]:
    try:
        told = control_client.ask(str(place), "stats")
    except MountError as error:
        return {"error": str(error)}
    return {name: told[name] for name in ("mountpoint", "daemon_pid")}


def serve_and_ask(pack: str, place: Path, user_id: int, answer_to: int) -> None:
    become(user_id)
    daemon_id, ready = start_daemon(pack, place, MountOptions())
    assert ready == "ready", ready
    told = ask(place) | {"daemon": daemon_id}
    os.write(answer_to, json.dumps(told).encode())
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
            serve_and_ask(pack, place, user_id, writing)
        finally:
            os._exit(0)
    os.close(writing)
    seen = {"user": json.loads(os.read(reading, 4096)), "root": ask(place)}
    unmount(str(place))
    os.waitpid(server_id, 0)
    seen["left"] = sorted(
        path.name for path in (home / "ffrfs").iterdir() if not path.name.endswith(state.KEPT)
    )
    print(json.dumps(seen))


if __name__ == "__main__":
    main()
