"""What one `ffrfs mount` was asked to do."""

from __future__ import annotations

from dataclasses import dataclass

from ffrfs.mount.options import MountOptions

CACHE_MB_DEFAULT = 256


@dataclass(frozen=True, kw_only=True)
class MountRequest:
    """Paths are absolute: a daemon works in the root directory."""

    pack: str
    mountpoint: str  # canonical
    options: MountOptions
    cache_bytes: int = CACHE_MB_DEFAULT << 20
    log_file: str | None = None  # None: a small one beside the state file
    while_open: int | None = None  # a descriptor; unmount when its other end closes

    @property
    def source(self) -> str:
        """What stands first in /proc/mounts."""
        return self.options.fsname or self.pack
