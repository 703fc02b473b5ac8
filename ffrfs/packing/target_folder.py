"""A directory to write to, on this machine or in a bucket: its names, and its small files.

Not here: packs and other large files (places.py, bucket_target.py). Concurrency: any thread.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager

from ffrfs.errors import PackError
from ffrfs.files.closing import closing_fd
from ffrfs.files.own_folder import open_own
from ffrfs.files.replacing import refuse_foreign, refuse_standard_output
from ffrfs.files.staged_file import StagedFile
from ffrfs.packing.places import MANIFEST_NAME
from ffrfs.remote.bucket import bytes_of, objects_in, pin_of, put, remove, urls_in, whole_objects
from ffrfs.remote.pin import Pin
from ffrfs.remote.settings import RemoteSettings
from ffrfs.remote.url import is_url, parse_url

_READING = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK  # opening a FIFO waits for its writer


class TargetFolder:
    """The directory `path`, or at a URL, which need not exist. Raises OSError, RemoteError.

    `url`: None for a local directory. `is_own`: ffrfs makes it in another; PackError is raised if
    somebody has put anything else there.
    """

    def __init__(self, path: str, *, is_own: bool = False) -> None:
        refuse_standard_output(path)
        self.path = path
        self._is_own = is_own
        self.url = parse_url(f"{path.rstrip('/')}/") if is_url(path) else None
        self._settings = RemoteSettings.from_environment()

    def place(self, name: str) -> str:
        return os.path.join(self.path, name)

    def names(self) -> list[str]:
        if self.url is not None:
            return [text.removeprefix(self.url.text) for text in urls_in(self.url, self._settings)]
        try:
            with self._opened() as folder:
                return os.listdir(self.path if folder is None else folder)
        except (FileNotFoundError, NotADirectoryError):
            return []

    def read(self, name: str, size_max: int) -> bytes | None:
        """Return the first bytes of a regular file; None: it is missing."""
        if self.url is not None:
            pin = pin_of(self.url.child(name), self._settings)
            if pin is None:
                return None
            return bytes_of(pin, 0, min(pin.size, size_max), self._settings)
        try:
            with self._opened() as folder:
                place = self.place(name) if folder is None else name
                with closing_fd(os.open(place, _READING, dir_fd=folder)) as fd:
                    if not stat.S_ISREG(os.fstat(fd).st_mode):
                        raise PackError(f"{self.place(name)}: is not a regular file; remove it")
                    with open(fd, "rb", closefd=False) as file:
                        return file.read(size_max)
        except FileNotFoundError:
            return None

    def contents(self, size_max: int) -> Iterator[bytes]:
        """Yield the small files in it."""
        if self.url is None:
            yield from (self.read(name, size_max) or b"" for name in self.names())
            return
        pins = [
            Pin(self.url.child(found.name), found.size, found.etag or None, None, found.mtime_ns)
            for found in objects_in(self.url, self._settings)[0]
            if 0 < found.size <= size_max
        ]
        for pieces in whole_objects(pins, self._settings):
            yield b"".join(map(bytes, pieces))

    def write(self, name: str, data: bytes, *, sync: bool = True) -> None:
        """Write a file, replacing one, or a link. `sync`: return when it is on the disk."""
        if self.url is not None:
            put(self.url.child(name), data, self._settings)
            return
        with (
            self._opened() as folder,
            StagedFile(self.place(name), follow=False, folder=folder) as file,
        ):
            file.write(data)
            file.publish(sync=sync)

    def write_manifest(self, data: bytes) -> None:
        """Write the manifest of a set. Raises PackError if another kind of file has its name."""
        if self.url is None:
            refuse_foreign(self.place(MANIFEST_NAME), _is_manifest, "a manifest")
        self.write(MANIFEST_NAME, data)

    def remove(self, name: str) -> None:
        if self.url is not None:
            remove(self.url.child(name), self._settings)
        else:
            with self._opened() as folder:
                os.unlink(self.place(name) if folder is None else name, dir_fd=folder)

    @contextmanager
    def _opened(self) -> Iterator[int | None]:
        """Yield the descriptor by which all is done in a directory of ffrfs."""
        folder = open_own(self.path) if self._is_own else None
        try:
            yield folder
        finally:
            if folder is not None:
                os.close(folder)


def _is_manifest(begin: bytes) -> bool:
    return begin.startswith(b'{"format": "ffrfs-manifest"')
