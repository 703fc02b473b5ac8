"""What one `ffrfs mount` was asked to do."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from ffrfs.mount.options import MountOptions

CACHE_MB_DEFAULT = 256
ENGINES = ("auto", "native", "pyfuse3")
THREADS_MAX = 16
PREFETCH_RECORDS_DEFAULT = 512
PREFETCH_BYTES_DEFAULT = 64 << 20
PREFETCH_TTL_S_DEFAULT = 60.0


def default_threads() -> int:
    """As many as there are cores for us, up to a limit."""
    return min(len(os.sched_getaffinity(0)), THREADS_MAX)


@dataclass(frozen=True, kw_only=True)
class MountRequest:
    """Paths are absolute: a daemon works in the root directory."""

    packs: tuple[str, ...]  # at least one; files, or folders of them
    mountpoint: str  # canonical
    options: MountOptions
    engine: str = ENGINES[0]
    threads: int = field(default_factory=default_threads)  # of the native engine
    cache_bytes: int = CACHE_MB_DEFAULT << 20
    prefetch_records: int = PREFETCH_RECORDS_DEFAULT  # ahead of each reader; 0: none
    prefetch_bytes: int = PREFETCH_BYTES_DEFAULT
    prefetch_ttl_s: float = PREFETCH_TTL_S_DEFAULT  # of what was fetched and is not read
    extensions: bool = True  # of the files in a TFRecord's records: .jpg, .npy
    log_file: str | None = None  # None: a small one beside the state file
    while_open: int | None = None  # a descriptor; unmount when its other end closes

    @property
    def prefetch_ttl_ms(self) -> int:
        return max(round(self.prefetch_ttl_s * 1000), 1)

    @property
    def source(self) -> str:
        """What stands first in /proc/mounts."""
        return self.options.fsname or self.packs[0]

    @property
    def title(self) -> str:
        """What is mounted, in a few words."""
        first, *more = self.packs
        return f"{first} and {len(more)} more" if more else first
