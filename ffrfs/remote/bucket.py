"""Access to the objects of a bucket for commands that write: listings, whole objects, uploads.

An upload appears under its name when it is complete, or never.

Large files are uploaded in parts, in parallel; each part is tried again until the timeout. If an
upload fails or is interrupted, its parts are removed. After a SIGKILL they remain, without a
name, until the bucket's rule for incomplete uploads removes them.

Not here: making files (ffrfs.packing), reading packs, which the fetcher does (object_fetcher.py).
Concurrency: any thread. Separate threads wait for the network.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Coroutine, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from operator import attrgetter
from threading import Event, Thread
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

from ffrfs.errors import RemoteError, RemoteNotFoundError
from ffrfs.files.batches import in_batches
from ffrfs.remote.failures import NO_BUCKET, failure_of
from ffrfs.remote.origin import origin_for, read_bytes
from ffrfs.remote.pin import Pin
from ffrfs.remote.settings import RemoteSettings
from ffrfs.remote.store import writable_store
from ffrfs.remote.url import RemoteUrl

if TYPE_CHECKING:
    from obstore import ObjectMeta
    from obstore.store import ObjectStore
    from typing_extensions import Buffer

# S3 copies objects of at most 5 GiB. This leaves room for the parts of a pack beside its files.
COPY_SIZE_MAX = 4 << 30

T = TypeVar("T")

# Called with the bytes uploaded so far, ten times a second; an exception in it ends the upload.
Sent: TypeAlias = Callable[[int], object]

_TICK_S = 0.1
_STOPPING_S = 10.0
_PIECE_SIZE = 1 << 20
_PART_SIZE = 8 << 20
_BATCH_SIZE = 32 << 20  # bytes of whole objects that are read at a time
_BATCH_COUNT = 32
_PARTS_AT_A_TIME = 4
_PARTS_MAX = 9_000  # S3 has 10,000, Azure 50,000


def upload(
    path: str, url: RemoteUrl, settings: RemoteSettings, sent: Sent, *, replace: bool = True
) -> bool:
    """Upload a file; without `replace`, return False if the object exists, and leave it alone.

    Even without `replace`, a file of several parts may replace an object that appears during the
    upload, and so may any file if the store has no conditional writes. Raises RemoteError, OSError
    for the file, and any exception of `sent`.
    """
    store = _store(url, settings)
    source = _Source(path)
    putting: Future[bool] = Future()
    args = (putting, store, url, source, replace)
    thread = Thread(target=_run, args=args, name="ffrfs-upload")
    thread.daemon = True  # a server that hangs must not delay the end of the process
    thread.start()
    try:
        while wait([putting], _TICK_S).not_done:
            sent(source.taken)
    except BaseException:
        source.stop.set()  # the thread fails at the next piece, and removes the parts
        raise
    finally:
        thread.join(_STOPPING_S)
    is_put = putting.result()
    sent(source.size)
    return is_put


def put(url: RemoteUrl, data: bytes, settings: RemoteSettings) -> None:
    """Put a small object, or replace it. Raises RemoteError."""
    import obstore

    with _failing_as_ours(url):
        obstore.put(_store(url, settings), url.key, data)


def put_new(url: RemoteUrl, data: bytes, settings: RemoteSettings) -> bool:
    """Put a small object, or return False if the name exists already.

    A store without conditional writes gets no object. Raises RemoteError.
    """
    import obstore

    with _failing_as_ours(url):
        try:
            obstore.put(_store(url, settings), url.key, data, mode="create")
        except obstore.exceptions.AlreadyExistsError:
            return False
        except (obstore.exceptions.NotSupportedError, NotImplementedError):
            pass
    return True


def put_over(pin: Pin, data: bytes, settings: RemoteSettings) -> bool:
    """Replace a small object unless it has changed; return whether it was replaced.

    In a store without conditional writes it is not. Raises RemoteError.
    """
    import obstore

    if not pin.etag:
        return False
    refusals = (
        obstore.exceptions.PreconditionError,
        obstore.exceptions.NotSupportedError,
        FileNotFoundError,
        NotImplementedError,
    )
    with _failing_as_ours(pin.url), contextlib.suppress(*refusals):
        obstore.put(_store(pin.url, settings), pin.url.key, data, mode={"e_tag": pin.etag})
        return True
    return False


def remove(url: RemoteUrl, settings: RemoteSettings) -> None:
    """Remove an object, if it is there. Raises RemoteError."""
    import obstore

    with _failing_as_ours(url), contextlib.suppress(FileNotFoundError):
        obstore.delete(_store(url, settings), url.key)


def copy(source: RemoteUrl, target: RemoteUrl, settings: RemoteSettings) -> None:
    """Make another object of one, at the server. Raises RemoteError."""
    import obstore

    with _failing_as_ours(source):
        obstore.copy(_store(source, settings), source.key, target.key)


def pin_of(url: RemoteUrl, settings: RemoteSettings) -> Pin | None:
    """Return the pin of the object at the URL, or None if it is absent. Raises RemoteError."""
    try:
        return _answer_of(origin_for(url, settings).pin(url))
    except RemoteNotFoundError as error:
        if (error.reason or "").startswith(NO_BUCKET):
            raise
        return None


def bytes_of(pin: Pin, offset: int, size: int, settings: RemoteSettings) -> bytes:
    """Return `size` bytes of the object from `offset` on. Raises RemoteError."""
    return bytes(_answer_of(read_bytes(origin_for(pin.url, settings), pin, offset, size)))


def urls_in(url: RemoteUrl, settings: RemoteSettings) -> list[str]:
    """Return the URLs of the objects directly in a directory. Raises RemoteError."""
    return _answer_of(origin_for(url, settings).list(url))


class Found(NamedTuple):
    """An object in the listing of a directory."""

    name: str
    size: int
    mtime_ns: int
    etag: str


def objects_in(url: RemoteUrl, settings: RemoteSettings) -> tuple[list[Found], list[str]]:
    """Return the objects directly in a directory, and the names of its directories.

    The list leaves out objects that mark a directory (their names end in "/"). Raises RemoteError.
    """
    import obstore

    store = _store(url, settings, is_directory=True)
    with _failing_as_ours(url):
        listed = obstore.list_with_delimiter(store, prefix=url.key or None)
    start = len(url.key)
    objects = [
        Found(meta["path"][start:], meta["size"], _time_ns(meta), meta["e_tag"] or "")
        for meta in listed["objects"]
        if meta["path"][start:]
    ]
    return objects, [prefix[start:].strip("/") for prefix in listed["common_prefixes"]]


def whole_objects(pins: Iterable[Pin], settings: RemoteSettings) -> Iterator[Iterator[Buffer]]:
    """Yield the bytes of each object in pieces; several objects are requested at a time.

    Take all pieces of an object before the next one. Raises RemoteError, ChangedAtOriginError.
    """
    with ThreadPoolExecutor(1, "ffrfs-read") as thread:
        ahead: Future[list[Buffer]] | None = None
        for batch in in_batches(pins, attrgetter("size"), _BATCH_SIZE, _BATCH_COUNT):
            is_large = batch[0].size > _BATCH_SIZE
            reading = None if is_large else thread.submit(asyncio.run, _read_all(batch, settings))
            yield from _single(ahead)
            ahead = reading
            if is_large:
                yield _pieces(batch[0], settings)
        yield from _single(ahead)


def _single(ahead: Future[list[Buffer]] | None) -> Iterator[Iterator[Buffer]]:
    if ahead is not None:
        yield from (iter([content]) for content in ahead.result())


async def _read_all(pins: list[Pin], settings: RemoteSettings) -> list[Buffer]:
    origin = origin_for(pins[0].url, settings)
    return await asyncio.gather(*(read_bytes(origin, pin, 0, pin.size) for pin in pins))


def _pieces(pin: Pin, settings: RemoteSettings) -> Iterator[Buffer]:
    for offset in range(0, pin.size, _PART_SIZE):
        yield bytes_of(pin, offset, min(_PART_SIZE, pin.size - offset), settings)


def _time_ns(meta: ObjectMeta) -> int:
    return int(meta["last_modified"].timestamp()) * 1_000_000_000


def _answer_of(asking: Coroutine[object, object, T]) -> T:
    """Return the result, computed in a thread: the caller's may run an event loop (notebooks)."""
    with ThreadPoolExecutor(1, "ffrfs-look") as thread:
        return thread.submit(asyncio.run, asking).result()


class _Source:
    """The file to upload, read in pieces until `stop` is set."""

    def __init__(self, path: str) -> None:
        self._file = open(path, "rb", buffering=0)  # noqa: SIM115 - close()
        self.size = os.fstat(self._file.fileno()).st_size
        self.taken = 0
        self.stop = Event()

    def __iter__(self) -> Iterator[bytes]:
        while data := os.pread(self._file.fileno(), _PIECE_SIZE, self.taken):
            self.taken += len(data)
            yield data
            if self.stop.is_set():
                raise _StoppedError

    def whole(self) -> bytes:
        return os.pread(self._file.fileno(), self.size, 0)

    def close(self) -> None:
        self._file.close()


class _StoppedError(Exception):
    """Ends an upload that was interrupted."""


def _run(
    putting: Future[bool], store: ObjectStore, url: RemoteUrl, source: _Source, replace: bool
) -> None:
    try:
        putting.set_result(_put(store, url, source, replace))
    except Exception as error:
        putting.set_exception(failure_of(error, url).error)
    finally:
        source.close()


def _put(store: ObjectStore, url: RemoteUrl, source: _Source, replace: bool) -> bool:
    import obstore

    part_size = max(_PART_SIZE, -(-source.size // _PARTS_MAX))
    is_in_parts = source.size > part_size
    if not replace and is_in_parts and _is_there(store, url):
        return False
    try:
        obstore.put(
            store,
            url.key,
            iter(source),
            mode="overwrite" if replace or is_in_parts else "create",
            use_multipart=is_in_parts,
            chunk_size=part_size,
            max_concurrency=_PARTS_AT_A_TIME,
        )
    except obstore.exceptions.AlreadyExistsError:
        return _holds(store, url, source)
    except (obstore.exceptions.NotSupportedError, NotImplementedError):
        if replace or is_in_parts:
            raise
        source.taken = 0
        return not _is_there(store, url) and _put(store, url, source, replace=True)
    there = obstore.head(store, url.key)["size"]
    if there != source.size:
        why = f"{there} bytes arrived of {source.size}; upload it again"
        raise RemoteError.at(url.shown, why)
    return True


def _holds(store: ObjectStore, url: RemoteUrl, source: _Source) -> bool:
    """Return whether the object has our bytes: the answer to a first request may have been lost."""
    import obstore

    if obstore.head(store, url.key)["size"] != source.size:
        return False
    return bytes(obstore.get(store, url.key).bytes()) == source.whole()


def _is_there(store: ObjectStore, url: RemoteUrl) -> bool:
    import obstore

    try:
        return obstore.head(store, url.key)["size"] > 0
    except FileNotFoundError:
        return False


def _store(url: RemoteUrl, settings: RemoteSettings, *, is_directory: bool = False) -> ObjectStore:
    if url.scheme not in ("s3", "gs", "az") or url.is_directory != is_directory:
        what = "directories" if is_directory else "objects"
        done = "packed" if is_directory else "written"
        raise RemoteError.at(url.shown, f"only {what} of s3://, gs:// and az:// can be {done}")
    with _failing_as_ours(url):
        return writable_store(url, settings)


@contextlib.contextmanager
def _failing_as_ours(url: RemoteUrl) -> Iterator[None]:
    """Raise an exception of obstore as the RemoteError that it means."""
    try:
        yield
    except Exception as error:
        raise failure_of(error, url).error from None
