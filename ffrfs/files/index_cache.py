"""The directory of indexes of a user's cache, in which the indexes take at most 4 GiB.

Not here: the name of an index (native/shard/cached_index.h), its content (folder, tfrecord).
Concurrency: any thread and process; an index that is removed while it is in use stays mapped.
"""

from __future__ import annotations

import contextlib
import os
import time

SIZE_MAX = 4 << 30
# The directory is listed at most so often, as it may have an index for each of 100,000 files.
_INTERVAL_S = 60.0
_PRIVATE = 0o700

_looked_s: dict[str, float] = {}  # when each directory was listed


def prepare_for(index: str) -> None:
    """Make the directory of `index`; remove the indexes written first if they take too much."""
    folder = os.path.dirname(index)
    os.makedirs(folder, mode=_PRIVATE, exist_ok=True)
    now_s = time.monotonic()
    if now_s - _looked_s.get(folder, -_INTERVAL_S) >= _INTERVAL_S:
        _looked_s[folder] = now_s
        _limit(folder)


def _limit(folder: str) -> None:
    found = []
    for entry in os.scandir(folder):
        if entry.name.endswith(".idx"):
            with contextlib.suppress(FileNotFoundError):
                info = entry.stat(follow_symlinks=False)
                # An index may have the mtime of its file.
                found.append((info.st_ctime_ns, info.st_size, entry.path))
    held = sum(size for _, size, _ in found)
    for _, size, path in sorted(found):
        if held <= SIZE_MAX:
            return
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        held -= size
