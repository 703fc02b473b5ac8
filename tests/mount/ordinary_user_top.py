"""Lists the mount of a user who is not root, as root does with `ffrfs top`.

Started by the tests as ordinary_user.py is, with the same arguments. Prints what was shown
as JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from ffrfs.mount.client.unmount import unmount
from ffrfs.mount.kernel.options import MountOptions
from tests.mount.ordinary_user import become, open_fuse_to_all, start_daemon


def serve(pack: str, place: Path, user_id: int, answer_to: int) -> None:
    become(user_id)
    daemon_id, ready = start_daemon(pack, place, MountOptions())
    os.write(answer_to, ready.encode())
    os.close(answer_to)
    os.waitpid(daemon_id, 0)


def make_session(user_id: int) -> None:
    """A runtime directory as a login makes it; nobody else of this machine sees it."""
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
    pack, home, user_id = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    open_fuse_to_all(home)
    make_session(user_id)
    place = home / "mount"
    reading, writing = os.pipe()
    server_id = os.fork()
    if server_id == 0:
        try:
            serve(pack, place, user_id, writing)
        finally:
            os._exit(0)
    os.close(writing)
    assert os.read(reading, 4096) == b"ready"
    lines = [line for line in show() if line.startswith(f"{place} ")]
    os.environ.pop("XDG_RUNTIME_DIR")
    unmount(str(place))
    os.waitpid(server_id, 0)
    print(json.dumps({"rows": lines}))


if __name__ == "__main__":
    main()
