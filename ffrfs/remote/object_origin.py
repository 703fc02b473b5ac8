"""Objects of S3, GCS and Azure: pinned, read by ranges, listed.

A server is not trusted: the range, the ETag, the version and the size of the whole object in
each answer are compared with the pin, and no more bytes are taken than were requested.

If an object was replaced, its old version is read if the bucket has kept it. Reads do not begin
with the version, because many credentials lack the permission for it (s3:GetObjectVersion).

Requests whose failure may be temporary are sent again until the deadline, with growing pauses. A
request that no byte has answered for a quarter of the time-out is mostly lost, and is sent again,
too; from then on, requests have the whole time-out, since the server may be as slow as that.

Not here: connections and credentials (store.py), the meaning of failures (failures.py), web
servers (http_origin.py).
Concurrency: asyncio; threads receive ranges side by side, and a cancelled one is abandoned.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import random
from collections.abc import Awaitable, Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, TypeVar

from ffrfs.errors import ChangedAtOriginError, RemoteError
from ffrfs.remote.failures import OTHER_BYTES, Failure, changed, failure_of, timed_out
from ffrfs.remote.fetch_counters import FetchCounters
from ffrfs.remote.pin import Pin
from ffrfs.remote.receiving import PIECE_SIZE, Rest, Take, threads
from ffrfs.remote.settings import RemoteSettings
from ffrfs.remote.store import bucket_store
from ffrfs.remote.url import RemoteUrl

if TYPE_CHECKING:
    from obstore import GetOptions, GetResult, ObjectMeta
    from obstore.store import ObjectStore

T = TypeVar("T")

_PAUSE_S = 0.1
_PAUSE_THROTTLED_S = 0.5
_PAUSE_MAX_S = 5.0
_SILENCE_SHARE = 1 / 4  # of the time-out, after which a request is begun again
# A user waits while an object is opened, so an absent server is reported soon: after this time, or
# after that share of a long time-out.
_PATIENCE_S = 10.0
# The share of a reader's timeout: the error must arrive before the reader gives up.
_SHARE = 0.9
_PROLONGED_MAX = 10  # times that share, for a range whose bytes come slowly
_NAMES_MAX = 100_000
# For a range outside of the object, some servers answer 416, others 206 with a bad Content-Range.
_NO_SUCH_RANGE = ("status code: 416", "CONTENT_RANGE")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class ObjectOrigin:
    """The Origin for s3://, gs:// and az://."""

    def __init__(self, settings: RemoteSettings, counters: FetchCounters) -> None:
        self._settings = settings
        self._counters = counters
        self._replaced: set[Pin] = set()  # objects that are read by their versions
        self._is_slow = False  # a request was silent for long, and none was answered sooner since

    async def pin(self, url: RemoteUrl) -> Pin:
        if url.is_directory:
            named = url.shown.removesuffix("/")  # a bucket: a URL that ends in a / is listed
            raise RemoteError.at(
                named, f"is not an object; for all packs below it add a /: {url.shown}"
            )
        once = functools.partial(self._pin_once, url)
        patience_s = max(_PATIENCE_S, _SILENCE_SHARE * self._settings.timeout_s)
        return await self._persistently(url, once, min(patience_s, self._seconds()))

    async def read(self, pin: Pin, offset: int, size: int, take: Take) -> None:
        rest = Rest(pin, offset, size, take)

        async def once(silence_s: float) -> None:
            if pin not in self._replaced:
                try:
                    return await self._read_once(pin, rest, silence_s)
                except Exception as error:
                    is_changed = isinstance(failure_of(error, pin.url).error, ChangedAtOriginError)
                    if pin.version is None or not is_changed:
                        raise
                self._counters.add("remote_requests")
            await self._read_version(pin, rest, silence_s)
            self._replaced.add(pin)

        if size:
            await self._persistently(pin.url, once, self._seconds(), rest)
            self._counters.add("remote_bytes", size)

    async def list(self, url: RemoteUrl) -> list[str]:
        if not url.is_directory:
            raise RemoteError.at(url.shown, "the URL of a directory ends in /")
        once = functools.partial(self._list_once, url)
        names = await self._persistently(url, once, self._seconds())
        if len(names) > _NAMES_MAX:
            raise RemoteError.at(url.shown, f"has more than {_NAMES_MAX:,} objects")
        return [url.child(name).text for name in sorted(names)]

    async def _pin_once(self, url: RemoteUrl, silence_s: float) -> Pin:
        result = await _first_byte(bucket_store(url, self._settings, silence_s), url.key)
        refuse_page(url, _content_type(result))
        return _pin_of(url, result.meta).checked()

    async def _read_version(self, pin: Pin, rest: Rest, silence_s: float) -> None:
        """Read a version. Raises ChangedAtOriginError also if it is gone, or must not be read."""
        try:
            await self._read_once(pin, rest, silence_s, pin.version)
        except Exception as error:
            failure = failure_of(error, pin.url)
            if failure.again or failure.renewal:
                raise
            raise changed(pin.url) from None

    async def _read_once(
        self, pin: Pin, rest: Rest, silence_s: float, version: str | None = None
    ) -> None:
        work = threads().submit(self._receive, pin, rest, silence_s, version)
        await asyncio.wrap_future(work)

    def _receive(self, pin: Pin, rest: Rest, silence_s: float, version: str | None) -> None:
        import obstore

        part = rest.part
        options: GetOptions = {"range": (part.start, part.stop)}
        if version is not None:
            options["version"] = version
        if pin.etag is not None and not pin.etag.startswith("W/"):  # a weak ETag never matches
            options["if_match"] = pin.etag
        store = bucket_store(pin.url, self._settings, silence_s)
        try:
            result = obstore.get(store, pin.url.key, options=options)
        except FileNotFoundError:
            raise changed(pin.url) from None
        if _pin_of(pin.url, result.meta) != pin:
            raise changed(pin.url)
        if result.range != (part.start, part.stop):
            raise RemoteError.at(pin.url.shown, OTHER_BYTES)
        for piece in result.stream(min_chunk_size=PIECE_SIZE):
            with memoryview(piece) as view:
                if len(view) > len(rest.part):
                    raise RemoteError.at(pin.url.shown, "the server sent too many bytes: its fault")
                rest.received += len(view)
                rest.came(view)
            if not rest.part:
                return
        got, size = rest.part.start - part.start, len(part)
        raise RemoteError.at(pin.url.shown, f"the server sent {got} of {size} bytes: its fault")

    async def _list_once(self, url: RemoteUrl, silence_s: float) -> Sequence[str]:
        """Return the names of the objects in the directory."""
        import obstore

        store, folder = bucket_store(url, self._settings, silence_s), url.key
        result = await obstore.list_with_delimiter_async(store, folder or None)
        paths = (meta["path"] for meta in result["objects"])
        # The name "" is the empty object that consoles make for the directory; it is kept out.
        return [path.removeprefix(folder) for path in paths if path.startswith(folder)]

    def _seconds(self) -> float:
        return _SHARE * self._settings.timeout_s

    async def _persistently(
        self,
        url: RemoteUrl,
        once: Callable[[float], Awaitable[T]],
        seconds: float,
        rest: Rest | None = None,
    ) -> T:
        """Return the result of `once`, which is tried until `seconds` have passed.

        `once` gets the number of silent seconds that end a try. `rest`: the range, if the object is
        open. Then `seconds` begin again whenever bytes of the first try come; and a lack of
        credentials may be temporary, since there were some before.
        """
        last: Failure | None = None
        short_s = _SILENCE_SHARE * self._settings.timeout_s
        is_slow = self._is_slow
        now = asyncio.get_running_loop().time
        try:
            async with asyncio.timeout(seconds) as limit:
                with _prolonging(limit, rest, seconds) as stop:
                    for attempt in range(1 << 30):
                        self._counters.add("remote_requests")
                        begin_s, before = now(), rest and rest.received
                        try:
                            result = await once(self._settings.timeout_s if is_slow else short_s)
                        except Exception as error:
                            stop()
                            last = failure_of(error, url)
                            if not (last.again or (rest is not None and last.renewal)):
                                raise last.error from None
                            if now() - begin_s >= short_s and before == (rest and rest.received):
                                is_slow = self._is_slow = True
                        else:
                            self._is_slow &= now() - begin_s >= short_s
                            return result
                        self._counters.add("remote_retries")
                        self._counters.add("remote_throttled", last.throttled)
                        await asyncio.sleep(_pause(attempt, last.throttled))
        except TimeoutError as error:
            if isinstance(error, RemoteError):
                raise
        raise timed_out(url, seconds, last)


@contextlib.contextmanager
def _prolonging(
    limit: asyncio.Timeout, rest: Rest | None, seconds: float
) -> Iterator[Callable[[], None]]:
    """Let `seconds` begin again while bytes come; the function that is yielded ends that.

    The whole time has a limit, because a server may send a few bytes at a time.
    """
    loop = asyncio.get_running_loop()
    latest = loop.time() + _PROLONGED_MAX * seconds
    timer: asyncio.TimerHandle | None = None

    def look(rest: Rest, before: int) -> None:
        nonlocal timer
        if rest.received > before:
            limit.reschedule(min(loop.time() + seconds, latest))
        timer = loop.call_later(seconds / 4, look, rest, rest.received)

    def stop() -> None:
        if timer is not None:
            timer.cancel()

    if rest is not None:
        timer = loop.call_later(seconds / 4, look, rest, 0)
    try:
        yield stop
    finally:
        stop()


async def _first_byte(store: ObjectStore, path: str) -> GetResult:
    """Return the attributes, by a GET: the failure of a HEAD request has no text that says why."""
    import obstore

    try:
        return await obstore.get_async(store, path, options={"range": (0, 1)})
    except obstore.exceptions.BaseError as error:
        # The object is empty, or the answer is a login page, which comes whole.
        is_whole = isinstance(error, obstore.exceptions.NotSupportedError)
        if not is_whole and not any(word in str(error) for word in _NO_SUCH_RANGE):
            raise
        result = await obstore.get_async(store, path, options={"head": True})
        if result.meta["size"] and not (is_whole and _is_page(_content_type(result))):
            raise
        return result


def _pin_of(url: RemoteUrl, meta: ObjectMeta) -> Pin:
    mtime_ns = (meta["last_modified"] - _EPOCH) // timedelta(microseconds=1) * 1000
    return Pin(url, meta["size"], meta["e_tag"], meta["version"], mtime_ns)


def refuse_page(url: RemoteUrl, content_type: str) -> None:
    """Raise RemoteError if the answer is a web page, and the URL not that of one."""
    if _is_page(content_type) and not url.key.lower().endswith((".html", ".htm")):
        why = "the server answered with a web page, perhaps a login page, not with a file"
        raise RemoteError.at(url.shown, why)


def _is_page(content_type: str) -> bool:
    return content_type.partition(";")[0].strip().lower() == "text/html"


def _content_type(result: GetResult) -> str:
    return str(result.attributes.get("Content-Type", ""))


def _pause(attempt: int, throttled: bool) -> float:
    longest = (_PAUSE_THROTTLED_S if throttled else _PAUSE_S) * (1 << min(attempt, 8))
    return min(longest, _PAUSE_MAX_S) * random.uniform(0.5, 1.0)
