"""ReadAhead: a thread that makes the items of an iterator before a consumer needs them.

Concurrency: one thread consumes. The thread that makes items ends with the last item, at
close(), or when the ReadAhead is dropped. It has no reference to the ReadAhead, only to
the channel between them. The child of a fork() has no such thread, so the child must not
consume (RecordDatasetIterator refuses); dropping and closing do nothing there.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from collections.abc import Iterable
from typing import Generic, Protocol, TypeVar

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

THREAD_NAME = "ffrfs-read-ahead"
_END_TIMEOUT_S = 1.0


class ClosableIterator(Protocol[T_co]):
    """An iterator that a ReadAhead can own."""

    def __next__(self) -> T_co: ...
    def close(self) -> None: ...


class ReadAhead(Generic[T]):
    """The items of `items`, at most `limit` of them made ahead; it owns `items`.

    `made`: items that come before them.
    """

    def __init__(self, items: ClosableIterator[T], limit: int, made: Iterable[T] = ()) -> None:
        self._channel = _Channel(items, limit, made)
        self._thread = threading.Thread(target=self._channel.run, name=THREAD_NAME, daemon=True)
        self._thread.start()
        self._finalizer = weakref.finalize(self, self._channel.close)

    def __next__(self) -> T:
        return self._channel.get()

    def pause(self) -> _Channel[T]:
        """Return a context in which no item is made. See the channel's `made` and `error`."""
        return self._channel

    def close(self) -> None:
        """End the thread, which closes the items; wait for its end.

        A thread that waits for an item, for example from an empty pipe, ends when the item comes.
        """
        self._channel.close()
        self._finalizer.detach()  # Python would lose a Ctrl-C that comes within it
        if self._channel.pid == os.getpid() and threading.current_thread() is not self._thread:
            self._thread.join(_END_TIMEOUT_S)


class _Channel(Generic[T]):
    """The state that both threads share."""

    def __init__(self, items: ClosableIterator[T], limit: int, made: Iterable[T]) -> None:
        self.made = deque(made)
        # The exception of next(items), which is raised again after the last item.
        self.error: BaseException | None = None
        self.pid = os.getpid()
        self._items = items
        self._limit = limit
        self._is_over = False
        self._is_closed = False
        self._making = threading.Lock()
        # It has an RLock, because a finalizer may call close() at any time.
        self._changed = threading.Condition()

    def run(self) -> None:
        try:
            while self._wait_for_room() and self._make():
                pass
        finally:
            self._items.close()

    def get(self) -> T:
        with self._changed:
            while not (self.made or self._is_over or self._is_closed):
                self._changed.wait()
            if self._is_closed:
                raise ValueError("the iterator is closed")
            if self.made:
                self._changed.notify_all()
                return self.made.popleft()
        raise StopIteration if self.error is None else self.error.with_traceback(None)

    def close(self) -> None:
        if self.pid == os.getpid():  # the child of a fork may have inherited a locked lock
            with self._changed:
                self._is_closed = True
                self._changed.notify_all()

    def _wait_for_room(self) -> bool:
        with self._changed:
            while len(self.made) >= self._limit and not self._is_closed:
                self._changed.wait()
            return not self._is_closed

    def _make(self) -> bool:
        with self._making:
            error: BaseException | None = None
            try:
                item = next(self._items)
            except StopIteration:
                pass
            except BaseException as caught:
                error = caught
            else:
                with self._changed:
                    self.made.append(item)
                    self._changed.notify_all()
                return True
            with self._changed:
                self.error, self._is_over = error, True
                self._changed.notify_all()
            return False

    def __enter__(self) -> _Channel[T]:
        self._making.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self._making.release()
