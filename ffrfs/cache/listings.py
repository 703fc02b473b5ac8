"""The last listing of each directory of objects, for readers that ask no server.

    DIR/listings/<64 digits>   JSON: the directory's URL without its secret part, and the names

The objects in a cache do not show whether their directory holds more; its listing does.

A file that is damaged or too large is no listing. If there are too many listings, or they are too
large together, the oldest are removed. They do not count in the cache's limit, but never take more
than 0.5 % of it.

Not here: what a directory without a listing means (ffrfs/remote/offline_origin.py).
Concurrency: functions; any thread, and other processes. A listing gets its name when it is whole.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Sequence

from ffrfs.cache.place import CachePlace
from ffrfs.files.staged_file import StagedFile

_FOLDER = "listings"
_SIZE_MAX = 4 << 20
_COUNT_MAX = 256
_BYTES_MAX = 8 << 20  # of all
_PART_OF_CACHE = 200


def keep_listing(
    place: CachePlace, name: str, url: str, names: Sequence[str], cache_size: int
) -> None:
    """Keep the names of the objects in a directory, instead of an earlier list under `name`.

    `cache_size`: the limit of the cache in bytes. Raises OSError.
    """
    bytes_max = min(_BYTES_MAX, cache_size // _PART_OF_CACHE)
    relative = f"{_FOLDER}/{name}"
    text = json.dumps({"url": url, "names": [*filter(_is_name, names)]}).encode()
    if len(text) > min(_SIZE_MAX, bytes_max):
        place.unlink(relative)
        return
    place.make_folder(_FOLDER)
    with place.opened_folder(_FOLDER) as folder:
        with StagedFile(name, folder=folder, mode=place.mode, follow=False) as file:
            file.write(text)
            file.publish(sync=False)
        _remove_oldest(folder, bytes_max)


def kept_listing(place: CachePlace, name: str, url: str) -> list[str] | None:
    """Return the names that were kept under `name`, or None. Raises CacheError: a foreign file."""
    try:
        fd = place.open_file(f"{_FOLDER}/{name}")
    except FileNotFoundError:
        return None
    with open(fd, "rb") as file:
        text = file.read(_SIZE_MAX + 1)
    try:
        fields = json.loads(text) if len(text) <= _SIZE_MAX else {}
        names = fields["names"] if fields["url"] == url else None
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    if not isinstance(names, list) or not all(map(_is_name, names)):
        return None
    return sorted(set(names))


def _is_name(name: object) -> bool:
    return isinstance(name, str) and name.isprintable() and name != "" and "/" not in name


def _remove_oldest(folder: int, bytes_max: int) -> None:
    found: list[tuple[int, int, str]] = []
    for name in os.listdir(folder):
        with contextlib.suppress(FileNotFoundError):
            info = os.stat(name, dir_fd=folder, follow_symlinks=False)
            found.append((info.st_mtime_ns, info.st_size, name))
    total_bytes = 0
    for count, (_, size, name) in enumerate(sorted(found, reverse=True), 1):
        total_bytes += size
        if count > _COUNT_MAX or total_bytes > bytes_max:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name, dir_fd=folder)
