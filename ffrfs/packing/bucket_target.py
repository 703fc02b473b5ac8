"""A place in a bucket: each file for it is made in a temporary directory, uploaded, and removed
from the temporary directory.

Not here: the content of the files (bucket_place.py, ffrfs.convert), uploading one
(ffrfs.remote.bucket). Concurrency: any thread may send files; the rest is for one thread.
"""

from __future__ import annotations

import contextlib
import os
import tempfile

from ffrfs.errors import PackError, RemoteError
from ffrfs.files.closing import Closing
from ffrfs.files.kind import FileKind, kind_of_bytes
from ffrfs.files.replacing import not_empty, taken
from ffrfs.files.staged_file import staged_folder
from ffrfs.packing.sources.folder_lister import FolderIdentity
from ffrfs.packing.target_folder import TargetFolder
from ffrfs.remote.bucket import Sent, bytes_of, pin_of, remove, upload
from ffrfs.remote.pin import Pin
from ffrfs.remote.settings import RemoteSettings
from ffrfs.remote.url import RemoteUrl, parse_url

_PRIVATE = 0o700


class BucketTarget(Closing):
    """The object at a URL, or, if `is_set`, the directory there.

    `tmp_dir`: where files are made (None: $TMPDIR, or tempfile's default). `as_in`: a name that an
    error shows if a directory is named for a file. Raises PackError for other URLs.
    """

    def __init__(self, path: str, *, is_set: bool, tmp_dir: str | None, as_in: str) -> None:
        self.path = path
        self.is_set = is_set
        self.settings = RemoteSettings.from_environment()
        self.url = parse_url(f"{path.rstrip('/')}/" if is_set else path)
        refuse_unwritable(self.url, is_set=is_set, as_in=as_in)
        self._sent: list[RemoteUrl] = []
        self._tmp_dir = tmp_dir
        self._replaces = True  # an object that has the name of a file that is sent
        self._staging: str | None = None
        self._ends = contextlib.ExitStack()

    @property
    def folder(self) -> str:
        """Return the temporary directory."""
        if self._staging is None:
            above = self._tmp_dir or tempfile.gettempdir()
            staged = staged_folder(above, "ffrfs-pack", mode=_PRIVATE)
            self._staging = self._ends.enter_context(staged)
        return self._staging

    @property
    def identity(self) -> FolderIdentity:
        return FolderIdentity.of(os.stat(self.folder))

    def place_of(self, url: RemoteUrl) -> str:
        """Return the path at which the file for `url` is made."""
        return os.path.join(self.folder, os.path.basename(url.key))

    def may_replace(self, force: bool) -> None:
        """Raise PackError if there is an object, unless `force`.

        An object that appears there later is not replaced either. Raises RemoteError.
        """
        pin = None if force else self._pin()
        if pin is not None and pin.size:
            raise taken(self.path, self._kind_of(pin))
        self._replaces = force or pin is not None

    def _pin(self) -> Pin | None:
        return pin_of(self.url, self.settings)

    def _kind_of(self, pin: Pin) -> FileKind:
        def read(offset: int, size: int) -> bytes:
            return bytes_of(pin, offset, size, self.settings)

        return kind_of_bytes(read, pin.size)

    def send(self, url: RemoteUrl, sent: Sent) -> None:
        """Upload the file that was made for `url`, and remove it here.

        Raises PackError, RemoteError, OSError.
        """
        place = self.place_of(url)
        try:
            # Noted before uploading: an upload that is ended may be complete at the server.
            self._sent.append(url)
            if not upload(place, url, self.settings, sent, replace=self._replaces):
                pin = self._pin()
                raise taken(self.path, self._kind_of(pin) if pin else None)
        finally:
            os.unlink(place)

    def take_back(self, *, stops: bool = False) -> bool:
        """Remove the uploaded objects of a set, the last first. A single object stays.

        Returns False if the server refuses to remove one; with `stops` all before it stay, too.
        """
        refused = 0
        while self.is_set and self._sent and not (stops and refused):
            try:
                remove(self._sent.pop(), self.settings)
            except RemoteError:
                refused += 1
        return not refused

    def refuse_content(self, *, can_append: bool = False) -> None:
        """Raise PackError if there is anything in the directory."""
        if TargetFolder(self.url.text).names():
            raise not_empty(self.path, can_append=can_append)

    def close(self) -> None:
        self._staging = None
        self._ends.close()


def refuse_unwritable(url: RemoteUrl, *, is_set: bool, as_in: str = "") -> None:
    """Raise PackError if the URL is no object of a bucket, or no directory there."""
    if url.scheme == "file":
        raise PackError(f"{url.shown}: name a local file by its path, without file://")
    if url.scheme in ("http", "https"):
        raise PackError(f"{url.shown}: files are written to s3://, gs:// or az://, not to HTTP")
    if url.is_directory and not is_set:
        raise PackError(
            f"{url.shown}: names a directory; name the file, as in {url.shown}{as_in}, or give "
            "--shards"
        )
