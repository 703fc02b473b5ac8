"""Commands in a mount namespace of their own, without the FUSE mounts of the tests beside them.

The kernel ends the connection of a mount with its last copy. A namespace has copies of all
mounts, so without DETACH_ALL a daemon would go on after its own test has unmounted.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

# For sh. umount(8) complains of mounts that end meanwhile, but they are no failure. A covered mount
# is detached after the mount that covers it, at the same place.
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
    """Return a command that runs an sh script with a copy of the mount; its "$@" is `command`."""
    namespace = ["unshare", "--mount", "--propagation", "private"]
    return [*namespace, "sh", "-c", _DETACH_OTHERS + script, "sh", str(mountpoint), *command]


def with_own_mounts(*command: str, options: Sequence[str] = ()) -> list[str]:
    """Return a command that runs `command` there; `options` are further ones of unshare(1)."""
    namespace = ["unshare", *options, "--mount", "--propagation", "private"]
    return [*namespace, "sh", "-c", f'{DETACH_ALL}; exec "$@"', "sh", *command]
