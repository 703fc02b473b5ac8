"""Lists the mount of a user who is not root, as root does with `ffrfs top`.

The tests start this like ordinary_user.py, with the same arguments. It prints the rows shown
as JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from ffrfs.mount.client.unmount import unmount
from tests.mount.ordinary_user import begin, serve_as_user


def make_session(user_id: int) -> None:
    """Make a runtime directory as a login does; nobody else on this machine sees it."""
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/run"], check=True, timeout=20)
    session = Path(f"/run/user/{user_id}")
    session.parent.mkdir()
    session.mkdir(mode=0o700)
    os.chown(session, user_id, user_id)
    os.environ["XDG_RUNTIME_DIR"] = str(session)


def show() -> list[str]:
    shown = subprocess.run(
        [sys.executable, "-m", "ffrfs", "top", "-n", "1"],
        env={name: value for name, value in os.environ.items() if name != "XDG_RUNTIME_DIR"},
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    return shown.stdout.splitlines()


def main() -> None:
    given = begin()
    place = given.place
    make_session(given.user_id)
    server_id, daemon_id = serve_as_user(given)
    assert daemon_id.isdecimal(), daemon_id
    lines = [line for line in show() if line.startswith(f"{place} ")]
    os.environ.pop("XDG_RUNTIME_DIR")
    unmount(str(place))
    os.waitpid(server_id, 0)
    print(json.dumps({"rows": lines}))


if __name__ == "__main__":
    main()
