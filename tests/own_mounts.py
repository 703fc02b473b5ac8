"""Commands in a mount namespace of their own, without the FUSE mounts of the tests beside them.

The kernel ends the connection of a mount with its last copy. A namespace has copies of all
mounts, so without DETACH_ALL a daemon serves on after its own test has unmounted.
"""

from __future__ import annotations

from collections.abc import Sequence

# For sh. Mounts that end meanwhile are no failure.
DETACH_ALL = (
    "umount --all --lazy --internal-only --no-canonicalize --types fuse,fuse.ffrfs "
    "|| ! grep -qE ' fuse(\\.ffrfs)? ' /proc/self/mounts"
)


def with_own_mounts(*command: str, options: Sequence[str] = ()) -> list[str]:
    """The command that runs it there; `options` are more ones of unshare(1)."""
    namespace = ["unshare", *options, "--mount", "--propagation", "private"]
    return [*namespace, "sh", "-c", f'{DETACH_ALL}; exec "$@"', "sh", *command]
