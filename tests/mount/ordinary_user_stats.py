"""Asks the daemon of a user who is not root, as that user and as root.

The tests start this like ordinary_user.py, with the same arguments. It prints the answers as
JSON.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from ffrfs.errors import MountError
from ffrfs.mount.client import control_client
from ffrfs.mount.client.unmount import unmount
from ffrfs.mount.kernel import state
from tests.mount.ordinary_user import begin, serve_as_user


def ask(place: Path) -> dict[str, object]:
    try:
        told = control_client.ask(str(place), "stats")
    except MountError as error:
        return {"error": str(error)}
    return {name: told[name] for name in ("mountpoint", "daemon_pid")}


def main() -> None:
    given = begin()
    place = given.place
    server_id, told = serve_as_user(
        given, lambda daemon_id: json.dumps(ask(place) | {"daemon": daemon_id})
    )
    seen = {"user": json.loads(told), "root": ask(place)}
    unmount(str(place))
    os.waitpid(server_id, 0)
    seen["left"] = sorted(
        path.name for path in (given.home / "ffrfs").iterdir() if not path.name.endswith(state.KEPT)
    )
    print(json.dumps(seen))


if __name__ == "__main__":
    main()
