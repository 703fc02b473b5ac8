"""The command of a daemon that goes on with a mount: `python -m ffrfs.mount.daemon.resume PLACE`.

The mount's guardian runs it, with the descriptors that the last daemon has left. With --try in
place of PLACE it only tells by its exit status whether this version can go on with the mount whose
figures are its input. Not here: what they are (kept_mount.py); a service manager runs
`ffrfs mount -f` again instead.
"""

from __future__ import annotations

import os
import sys

from ffrfs.mount.daemon import daemon
from ffrfs.mount.daemon.kept_mount import NAMES, kept_mount, mount_of


def main() -> None:
    if sys.argv[1:] == ["--try"]:
        from ffrfs.mount.daemon import server  # noqa: F401 - as a daemon does later

        mount_of(sys.stdin.buffer.read(), dict.fromkeys(NAMES, -1))
        return
    kept = kept_mount()
    if kept is None:
        sys.exit("ffrfs: this is the guardian's command, not one for people: run: ffrfs mount")
    os.umask(os.umask(0o022) | 0o022)  # the guardian has that of the first daemon
    daemon.serve(kept.request, lambda _: None, foreground=kept.is_foreground, kept=kept)


if __name__ == "__main__":
    main()
