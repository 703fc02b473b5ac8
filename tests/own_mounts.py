"""Commands in a mount namespace of their own, without the FUSE mounts of the tests beside them.

The kernel ends the connection of a mount with its last copy. A namespace has copies of all
mounts, so without DETACH_ALL a daemon serves on after its own test has unmounted.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

# For sh. Mounts that end meanwhile are no failure, though umount(8) tells of them. A mount that is
# covered is detached after the one that covers it, which has the same place.
_ARE_LEFT = "grep -qE ' fuse(\\.ffrfs)? ' /proc/self/mounts"
DETACH_ALL = (
    "for turn in 1 2 3; do umount --all --lazy --internal-only --no-canonicalize "
    f"--types fuse,fuse.ffrfs 2>/dev/null; {_ARE_LEFT} || break; done; ! {_ARE_LEFT}"
)


_DETACH_OTHERS = """
awk -v own="$1" '$3 ~ /^fuse(\\.ffrfs)?$/ && $2 != own { print $2 }' /proc/self/mounts |
    xargs -r umount --lazy --internal-only --no-canonicalize 2>/dev/null
shift
"""


def with_copy_of(mountpoint: Path, script: str, *command: str) -> list[str]:
    """The command that runs a script of sh with a copy of that mount; "$@" there is `command`."""
    namespace = ["unshare", "--mount", "--propagation", "private"]
    return [*namespace, "sh", "-c", _DETACH_OTHERS + script, "sh", str(mountpoint), *command]


def with_own_mounts(*command: str, options: Sequence[str] = ()) -> list[str]:
    """The command that runs it there; `options` are more ones of unshare(1)."""
    namespace = ["unshare", *options, "--mount", "--propagation", "private"]
    return [*namespace, "sh", "-c", f'{DETACH_ALL}; exec "$@"', "sh", *command]
