"""The output of a conversion into a bucket.

Each file is made in a temporary directory, uploaded and removed there. One shard is uploaded
while the next is made, so local space for two suffices. A single object appears when it is whole.
Shards appear one after the other; if anything fails, they are removed again.

Not here: the temporary directory and the upload (ffrfs.packing.bucket_target).
Concurrency: one thread, and one more for uploads.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from threading import Event
from typing import Self

from ffrfs.convert.output import Output
from ffrfs.convert.watch import Watch
from ffrfs.errors import PackError
from ffrfs.packing.bucket_target import BucketTarget
from ffrfs.remote.url import RemoteUrl

_TICK_S = 0.1


class BucketOutput(Output):
    """An object, or, if `is_set`, the objects of a directory, at the URL `path`.

    Raises PackError if the URL cannot be written to, and if an object exists already, unless
    `force`; RemoteError.
    """

    def __init__(
        self, path: str, watch: Watch, *, is_set: bool, force: bool, tmp_dir: str | None
    ) -> None:
        super().__init__(path, force=False)  # of the local file, whose name is unused
        self._watch = watch
        self._target = BucketTarget(path, is_set=is_set, tmp_dir=tmp_dir, as_in="train.tfrecord")
        if is_set:
            self._target.refuse_content()
        else:
            self._target.may_replace(force)
        self.place = self._target.place_of(self._target.url)
        self._thread = ThreadPoolExecutor(1, "ffrfs-send")
        self._under_way: Future[None] | None = None
        self._stopped = Event()
        self._begun_size = 0  # bytes of records in files whose upload has begun

    @contextlib.contextmanager
    def shard_folder(self) -> Iterator[str]:
        yield self._target.folder

    def written(self, place: str) -> None:
        self._wait()
        file_size = os.path.getsize(place)
        url = self._target.url
        if self._target.is_set:
            url = url.child(os.path.basename(place))
        before, self._begun_size = self._begun_size, self._watch.size
        self._under_way = self._thread.submit(self._send, url, file_size, before, self._begun_size)

    def finish(self) -> None:
        self._wait()

    def _send(self, url: RemoteUrl, file_size: int, before: int, after: int) -> None:
        def sent(size: int) -> None:
            if self._stopped.is_set():
                raise _StoppedError
            share = size / file_size if file_size else 1
            self._watch.sent = before + int((after - before) * min(share, 1))

        self._target.send(url, sent)

    def _wait(self) -> None:
        while self._under_way is not None and wait([self._under_way], _TICK_S).not_done:
            self._watch.tell()
        if self._under_way is not None:
            self._under_way.result()
            self._watch.tell()
            self._under_way = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, _: object) -> None:
        try:
            self._stopped.set()
            self._thread.shutdown()
            if kind is not None:
                self._target.take_back()
        finally:
            self._target.close()
        here = os.path.dirname(self.place) + "/"
        if isinstance(error, PackError) and here in str(error):
            # The writer of the file knows only its local name.
            folder = f"{self._target.url.shown.rpartition('/')[0]}/"
            raise PackError(str(error).replace(here, folder)) from None


class _StoppedError(Exception):
    """Ends an upload that is not needed any more."""
