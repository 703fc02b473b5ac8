"""The stages behind RecordDataset's methods, each pulling elements from the one before it.

A stage is an iterator over elements: a value, and the record that it comes from, for
errors. state() and load() carry its position and its buffer to another process; load() is
called before the first next(). Not here: the first stage (source.py). Concurrency: one
thread at a time, and Prefetch's thread is the only other one.
"""

from __future__ import annotations

import operator
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol, SupportsIndex, TypeAlias

from ffrfs.errors import FfrfsError, is_damage
from ffrfs.tfrecord.dataset.read_ahead import ReadAhead
from ffrfs.tfrecord.dataset.source import Element, Reading, Source

State: TypeAlias = dict[str, Any]


class Stage(Protocol):
    """An iterator over elements that can be saved."""

    def __next__(self) -> Element: ...
    def state(self) -> State: ...
    def load(self, state: State) -> None: ...
    def close(self) -> None: ...


@dataclass(frozen=True)
class Operation:
    """A call of one of RecordDataset's methods: its stage, with the arguments."""

    stage: Callable[..., Stage]
    arguments: tuple[Any, ...]


@dataclass(frozen=True)
class Pass:
    """One iteration over a data set, which determines its random numbers."""

    seed: int  # for a shuffle() without a seed
    epoch: int
    age: int  # the number of epochs that `seed` had before, which tells them apart
    fixed_seed: int | None  # the same in all epochs, for one that keeps its order
    turns: tuple[int, ...] = ()  # turns of the repeat()s around a stage


def drawn_seed() -> int:
    return random.SystemRandom().getrandbits(63)


def seed_of(given: SupportsIndex | None) -> int | None:
    # An order follows from its seed's text, and that of NumPy's 1 is "np.int64(1)".
    return None if given is None else operator.index(given)


def build(reading: Reading, operations: tuple[Operation, ...], run: Pass) -> Stage:
    """Return the last of the stages."""
    if not operations:
        return Source(reading)
    *before, last = operations
    if last.stage is Repeat:

        def turn(number: int) -> Stage:
            return build(reading, tuple(before), replace(run, turns=(*run.turns, number)))

        return Repeat(turn, *last.arguments)
    upstream = build(reading, tuple(before), run)
    files = (reading.files,)
    context = {Map: files, Filter: files, Shuffle: (run,)}.get(last.stage, ())  # type: ignore[call-overload]
    return last.stage(upstream, *last.arguments, *context)


class _Stage:
    """The base of most stages, which hold nothing but the stage before them."""

    def __init__(self, upstream: Stage) -> None:
        self._upstream = upstream

    def state(self) -> State:
        return {"upstream": self._upstream.state()}

    def load(self, state: State) -> None:
        self._upstream.load(state["upstream"])

    def close(self) -> None:
        self._upstream.close()


class Map(_Stage):
    """A function of each value. Its error names file and record."""

    def __init__(
        self,
        upstream: Stage,
        function: Callable[[Any], Any],
        on_error: Callable[[Exception, Any], Any] | None,
        files: tuple[str, ...],
    ) -> None:
        super().__init__(upstream)
        self._function, self._on_error, self._files = function, on_error, files

    def __next__(self) -> Element:
        element = next(self._upstream)
        return self._result(element), element[1]

    def _result(self, element: Element) -> Any:  # noqa: ANN401 - the function's result
        value, origin = element
        try:
            return self._function(value)
        except FfrfsError as error:
            named = error
            if error.file is None:
                file, record = self._files[origin[0]], origin[1]
                named = type(error).at(file, f"record {record}: {error}", record)
            if self._on_error is not None and is_damage(named):
                return self._on_error(named, named.record)
            raise named from None
        except StopIteration:
            name = type(self).__name__.lower()
            raise RuntimeError(f"the function of {name}() raised StopIteration") from None
        except Exception as error:
            error.add_note(f"{self._files[origin[0]]}: record {origin[1]}")
            raise


class Filter(Map):
    """The values for which a function is true."""

    def __next__(self) -> Element:
        while True:
            element = next(self._upstream)
            if self._result(element):
                return element


class Batch(_Stage):
    """Lists of `size` values; the last is shorter, or dropped."""

    def __init__(self, upstream: Stage, size: int, drop_remainder: bool) -> None:
        super().__init__(upstream)
        self._size, self._drop_remainder = size, drop_remainder

    def __next__(self) -> Element:
        value, origin = next(self._upstream)
        values = [value]
        for _ in range(self._size - 1):
            try:
                values.append(next(self._upstream)[0])
            except StopIteration:
                if self._drop_remainder:
                    raise
                break
        return values, origin


class _Counted(_Stage):
    """A stage that counts the elements of the one before it."""

    def __init__(self, upstream: Stage) -> None:
        super().__init__(upstream)
        self._count = 0

    def _pull(self) -> Element:
        element = next(self._upstream)
        self._count += 1
        return element

    def state(self) -> State:
        return super().state() | {"count": self._count}

    def load(self, state: State) -> None:
        super().load(state)
        self._count = state["count"]


class Take(_Counted):
    def __init__(self, upstream: Stage, count: int) -> None:
        super().__init__(upstream)
        self._limit = count

    def __next__(self) -> Element:
        if self._count == self._limit:
            raise StopIteration
        return self._pull()


class Skip(_Counted):
    def __init__(self, upstream: Stage, count: int) -> None:
        super().__init__(upstream)
        self._skipped = count

    def __next__(self) -> Element:
        while self._count < self._skipped:
            self._pull()
        return self._pull()


class Shard(_Counted):
    """Elements `index`, `index` + `num_shards`, …"""

    def __init__(self, upstream: Stage, num_shards: int, index: int) -> None:
        super().__init__(upstream)
        self._num_shards, self._index = num_shards, index

    def __next__(self) -> Element:
        while self._count % self._num_shards != self._index:
            self._pull()
        return self._pull()


class Shuffle(_Stage):
    """Draws one of the next `size` elements at random, repeatedly. Its state has the buffer."""

    def __init__(
        self, upstream: Stage, size: int, seed: int | None, reshuffle: bool, run: Pass
    ) -> None:
        super().__init__(upstream)
        self._size = size
        again = (run.age if seed is None else run.epoch, *run.turns) if reshuffle else ()
        if seed is None:
            seed = run.seed if reshuffle else run.fixed_seed
        # Seeding with a text gives the same numbers in every process and version of Python.
        self._random = random.Random(repr((seed, again)))
        self._buffer: list[Element] = []
        self._is_over = False

    def __next__(self) -> Element:
        while not self._is_over and len(self._buffer) < self._size:
            try:
                self._buffer.append(next(self._upstream))
            except StopIteration:
                self._is_over = True
        if not self._buffer:
            raise StopIteration
        chosen = int(self._random.random() * len(self._buffer))
        element, self._buffer[chosen] = self._buffer[chosen], self._buffer[-1]
        self._buffer.pop()
        return element

    def state(self) -> State:
        return super().state() | {
            "buffer": list(self._buffer),
            "random": self._random.getstate(),
            "is_over": self._is_over,
        }

    def load(self, state: State) -> None:
        super().load(state)
        self._buffer, self._is_over = list(state["buffer"]), state["is_over"]
        self._random.setstate(state["random"])


class Repeat:
    """Runs the stages before it `count` times; None: until a turn gives nothing."""

    def __init__(self, turn: Callable[[int], Stage], count: int | None) -> None:
        self._make = turn
        self._limit = count
        self._turn = 0
        self._is_empty = True  # whether the turn has given nothing so far
        self._upstream: Stage | None = None

    def __next__(self) -> Element:
        while self._limit is None or self._turn < self._limit:
            if self._upstream is None:
                self._upstream = self._make(self._turn)
            try:
                element = next(self._upstream)
            except StopIteration:
                if self._is_empty:
                    raise
                self._upstream.close()
                self._turn, self._is_empty, self._upstream = self._turn + 1, True, None
            else:
                self._is_empty = False
                return element
        raise StopIteration

    def state(self) -> State:
        upstream = None if self._upstream is None else self._upstream.state()
        return {"upstream": upstream, "turn": self._turn, "is_empty": self._is_empty}

    def load(self, state: State) -> None:
        self._turn, self._is_empty = state["turn"], state["is_empty"]
        if state["upstream"] is not None:
            self._upstream = self._make(self._turn)
            self._upstream.load(state["upstream"])

    def close(self) -> None:
        if self._upstream is not None:
            self._upstream.close()


class Prefetch(_Stage):
    """Elements that a thread makes ahead, at most `size`, which its state contains."""

    def __init__(self, upstream: Stage, size: int) -> None:
        super().__init__(upstream)
        self._size = size
        self._made: list[Element] = []  # by an earlier process, from the state
        self._ahead: ReadAhead[Element] | None = None

    def __next__(self) -> Element:
        if self._ahead is None:
            self._ahead = ReadAhead(self._upstream, self._size, self._made)
        return next(self._ahead)

    def state(self) -> State:
        if self._ahead is None:
            return super().state() | {"made": list(self._made)}
        with self._ahead.pause() as channel:
            if channel.error is not None:
                raise channel.error
            return super().state() | {"made": list(channel.made)}

    def load(self, state: State) -> None:
        super().load(state)
        self._made = list(state["made"])

    def close(self) -> None:
        if self._ahead is None:
            super().close()
        else:
            self._ahead.close()  # its thread closes the stages before it
