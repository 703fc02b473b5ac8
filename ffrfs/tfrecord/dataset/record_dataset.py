"""RecordDataset: the public class for reading many TFRecord files as a stream.

Not here: the work of the methods (stages.py), reading (source.py), torch's workers and ranks
(ffrfs.torch.record_stream). Concurrency: a data set may be pickled, or inherited by the
child of a fork(); an iterator belongs to one thread of the process that began it.
"""

from __future__ import annotations

import operator
import os
import weakref
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Self, SupportsIndex, TypeAlias, Unpack

from ffrfs.files.closing import Closing
from ffrfs.printable import shown_name
from ffrfs.remote.named_store import StoreKeywords, in_store
from ffrfs.tfrecord.dataset.source import Reading
from ffrfs.tfrecord.dataset.stages import (
    Batch,
    Filter,
    Map,
    Operation,
    Pass,
    Prefetch,
    Repeat,
    Shard,
    Shuffle,
    Skip,
    State,
    Take,
    build,
    drawn_seed,
    seed_of,
)
from ffrfs.tfrecord.iterator import OnError, check_on_error
from ffrfs.tfrecord.options import OptionsLike, TFRecordOptions
from ffrfs.tfrecord.shards import PathType, shard_paths

PartBy: TypeAlias = Literal["auto", "file", "record"]

AUTOTUNED_READS = 8  # the value for num_parallel_reads=-1 (tf.data.AUTOTUNE)

_STATE_VERSION = 1

# Methods of tf.data that would cost more than they give, and their replacements.
_INSTEAD = {
    "cache": "the kernel keeps what it has read of the files; keep what map() makes by list(data)",
    "concatenate": "give RecordDataset the files of both, or chain(first, second) of itertools",
}


class RecordDataset:
    """The records of TFRecord files, one after the other, as `bytes`; compressed ones too.

    `files`: a file, a list of files, or a directory of shards (ffrfs.tfrecord.shards).
    `compression_type`: "", "GZIP", "ZLIB", TFRecordOptions; None: recognised. `buffer_size` has no
    effect. `num_parallel_reads`: how many files are read at a time, a record of each in turn (None:
    one). `check_data`, `on_error`: as for tf_record_iterator(), where a function is called by a
    thread that reads ahead. `store`: as for PackedFolder.

    Each method returns a new data set and leaves this one unchanged; the names and meanings
    are those of tf.data. Each iteration is a new epoch (set_epoch). Memory: 16 MiB, or two
    records, for each file that is read at a time; the buffers of shuffle() and prefetch().

    Errors name file and record: ChecksumError, TruncatedError, FormatError, OSError. An
    iterator that has failed raises the same again. Raises ValueError if there are no files.
    """

    _seed_age: int | None = None  # None: the epoch; older pickles lack it and the next one
    _fixed_seed: int | None = None  # of shuffles without a seed that keep their order

    def __init__(  # noqa: PLR0913 - tf.data's arguments, in its order
        self,
        files: PathType | Sequence[PathType],
        compression_type: OptionsLike = None,
        buffer_size: int | None = None,
        num_parallel_reads: int | None = None,
        *,
        check_data: bool = True,
        on_error: OnError = "raise",
        **store: Unpack[StoreKeywords],
    ) -> None:
        check_on_error(on_error)
        paths = tuple(shard_paths(in_store(files, store)))
        if not paths:
            raise ValueError("there are no files to read: the list is empty")
        reads = 1 if num_parallel_reads is None else operator.index(num_parallel_reads)
        reads = AUTOTUNED_READS if reads == -1 else _at_least(1, "num_parallel_reads", reads)
        kind = TFRecordOptions(compression_type).compression_type
        self._reading = Reading(paths, kind, check_data, on_error, cycle_length=reads)
        self._operations: tuple[Operation, ...] = ()
        self._epoch = 0
        self._seed: int | None = None
        self._state: State | None = None  # the begin of the next iteration
        self._latest: weakref.ref[RecordDatasetIterator] | None = None

    @property
    def files(self) -> list[str]:
        return list(self._reading.files)

    def interleave(self, cycle_length: SupportsIndex, block_length: SupportsIndex = 1) -> Self:
        """Return a data set that reads `cycle_length` files at a time, `block_length` records each.

        It must be the first call, because it says how files are read.
        """
        if self._operations:
            raise ValueError("interleave() says how files are read: call it first")
        cycle = _at_least(1, "cycle_length", cycle_length)
        block = _at_least(1, "block_length", block_length)
        return self._copy(replace(self._reading, cycle_length=cycle, block_length=block), ())

    def shard(self, num_shards: SupportsIndex, index: SupportsIndex) -> Self:
        """Return every `num_shards`-th element, from element `index` on. All of them are read."""
        count = _at_least(1, "num_shards", num_shards)
        number = _at_least(0, "index", index)
        if number >= count:
            raise ValueError(f"index {number} does not exist: there are {count} shards")
        return self._with(Shard, count, number)

    def shuffle(
        self,
        buffer_size: SupportsIndex,
        seed: SupportsIndex | None = None,
        reshuffle_each_iteration: bool = True,
    ) -> Self:
        """Return the elements in random order: each is drawn from a buffer of the next ones.

        The same seed gives the same orders, another in each epoch and turn of repeat(),
        unless `reshuffle_each_iteration` is False. None: a random seed, which is then drawn
        here, so that take() and skip() divide the elements; give one if restarted workers
        resume it. state_dict() holds the buffer, so shuffle records, not map()'s results.
        """
        size = _at_least(1, "buffer_size", buffer_size)
        made = self._with(Shuffle, size, seed_of(seed), bool(reshuffle_each_iteration))
        if seed is None and not reshuffle_each_iteration and made._fixed_seed is None:
            made._fixed_seed = drawn_seed()
        return made

    def batch(self, batch_size: SupportsIndex, drop_remainder: bool = False) -> Self:
        """Return lists of `batch_size` elements, as parse_example() takes them."""
        return self._with(Batch, _at_least(1, "batch_size", batch_size), bool(drop_remainder))

    def map(
        self,
        function: Callable[[Any], Any],
        num_parallel_calls: int | None = None,
        deterministic: bool | None = None,
        on_error: Callable[[Exception, Any], Any] | None = None,
    ) -> Self:
        """Return the results of `function` for all elements; its errors name file and record.

        It is called for one element after the other, and the order stays, whatever
        `num_parallel_calls` and `deterministic` are; workers of a DataLoader work in parallel.
        `on_error`, of its FormatError and the record's number, returns the result instead.
        """
        return self._with_function(Map, function, on_error)

    def filter(self, predicate: Callable[[Any], Any]) -> Self:
        """Return the elements for which `predicate` is true. All of them are read."""
        return self._with_function(Filter, predicate)

    def prefetch(self, buffer_size: SupportsIndex) -> Self:
        """Let a thread make up to `buffer_size` elements ahead (-1, AUTOTUNE: 2; 0: none)."""
        size = _at_least(-1, "buffer_size", buffer_size)
        if size == 0:
            return self._copy(self._reading, self._operations)
        return self._with(Prefetch, 2 if size == -1 else size)

    def repeat(self, count: SupportsIndex | None = None) -> Self:
        """Return all elements `count` times; None or -1: without end."""
        number = -1 if count is None else operator.index(count)
        return self._with(Repeat, None if number == -1 else _at_least(0, "count", number))

    def take(self, count: SupportsIndex) -> Self:
        """Return the first `count` elements; -1: all."""
        number = operator.index(count)
        return self._with(Take, -1 if number == -1 else _at_least(0, "count", number))

    def skip(self, count: SupportsIndex) -> Self:
        """Return all but the first `count` elements, which are read all the same."""
        return self._with(Skip, _at_least(0, "count", count))

    def part(
        self, num_parts: int, index: int, by: PartBy = "auto", seed: SupportsIndex | None = None
    ) -> Self:
        """Return one of several parts for as many workers; together they have every element once.

        "file": of every `num_parts`-th file; each part reads its own files only. "record":
        every `num_parts`-th record of all files; parts differ by one record at most, and
        each reads everything. "auto": by file if there are as many files as parts and no
        take(), skip() or shard(). These count elements of the whole: the data set is divided
        after the last of them, and all steps before it are the same in all parts.
        `seed`: for a shuffle() without one.

        Raises ValueError for "file" if that is not possible.
        """
        if not 0 <= index < num_parts:
            raise ValueError(f"part {index} does not exist: there are {num_parts}")
        counting = [n for n, one in enumerate(self._operations) if one.stage in (Take, Skip, Shard)]
        can_be_by_file = not counting and len(self._reading.files) >= num_parts
        if by == "file" and not can_be_by_file:
            raise ValueError(
                f"{len(self._reading.files)} files cannot be divided by {num_parts}: there must be "
                'one for each, and no take(), skip() or shard(); use by="record"'
            )
        before = self._operations[: counting[-1]] if counting else ()
        if seed is None and any(
            one.stage is Shuffle and one.arguments[1] is None for one in before
        ):
            raise ValueError(
                "take(), skip() and shard() behind a shuffle() count other elements in each part: "
                "give shuffle() a seed"
            )
        if num_parts == 1:
            made = self._copy(self._reading, self._operations)
        elif can_be_by_file and by != "record":
            files = self._reading.files[index::num_parts]
            made = self._copy(replace(self._reading, files=files), self._operations)
        else:
            at = counting[-1] + 1 if counting else 0
            cut = Operation(Shard, (num_parts, index))
            made = self._copy(self._reading, (*self._operations[:at], cut, *self._operations[at:]))
        made._seed, made._epoch = seed_of(seed), self._epoch
        return made

    def set_epoch(self, epoch: SupportsIndex) -> None:
        """Set the number of the next iteration's epoch: 0 at first, then one more each time."""
        self._epoch = _at_least(0, "epoch", epoch)

    def __iter__(self) -> RecordDatasetIterator:
        """Begin an epoch; or continue one, after load_state_dict()."""
        state, self._state = self._state, None
        if state is None:
            seed = drawn_seed() if self._seed is None else self._seed
            age = self._epoch if self._seed_age is None else self._seed_age
            run = Pass(seed, self._epoch, age, self._fixed_seed)
        else:
            # States of earlier versions have a seed and an epoch only.
            given = {"age": state["epoch"], "fixed_seed": state["seed"]} | state
            run = Pass(*(given[name] for name in ("seed", "epoch", "age", "fixed_seed")))
            self._fixed_seed = run.fixed_seed
        iterator = RecordDatasetIterator(
            self._reading, self._operations, run, state and state["stages"]
        )
        self._epoch = run.epoch + 1
        self._latest = weakref.ref(iterator)
        return iterator

    def state_dict(self) -> State:
        """Return the state of the iterator that was begun last; see its state_dict()."""
        latest = None if self._latest is None else self._latest()
        if latest is None:
            raise ValueError("there is no iterator whose state could be saved; keep it: iter(data)")
        return latest.state_dict()

    def load_state_dict(self, state: State) -> None:
        """Let the next iteration continue after the last element of the saved one.

        Files that were begun are read again from their beginning, up to that place.
        Raises ValueError for the state of another data set.
        """
        if not isinstance(state, dict) or state.get("version") != _STATE_VERSION:
            raise ValueError("not a state of a RecordDataset, or of another version of ffrfs")
        own = _description(self._reading, self._operations)
        if state["dataset"] != own:
            raise ValueError(
                f"the state is of another data set: {_difference(state['dataset'], own)}"
            )
        self._state = state

    def _with(self, stage: Callable[..., Any], *arguments: object) -> Self:
        return self._copy(self._reading, (*self._operations, Operation(stage, arguments)))

    def _with_function(self, stage: type[Map], function: object, on_error: object = None) -> Self:
        if not callable(function):
            raise TypeError(f"{stage.__name__.lower()}() takes a function, not {function!r}")
        return self._with(stage, function, on_error)

    def _copy(self, reading: Reading, operations: tuple[Operation, ...]) -> Self:
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__)
        made._reading, made._operations = reading, operations
        made._epoch, made._state, made._latest = 0, None, None
        return made

    if not TYPE_CHECKING:  # a type checker would accept every name

        def __getattr__(self, name: str) -> NoReturn:
            reason = f": {_INSTEAD[name]}" if name in _INSTEAD else ""
            raise AttributeError(f"RecordDataset has no {name!r}{reason}", name=name, obj=self)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_latest": None}

    def __repr__(self) -> str:
        *_, how = _description(self._reading, ())
        calls = _description(self._reading, self._operations)[len(self._reading.files) + 1 :]
        return ".".join([f"RecordDataset({[*map(shown_name, self.files)]!r})", how, *calls])


class RecordDatasetIterator(Closing):
    """The iterator of a RecordDataset. Its threads end with it, and at close()."""

    def __init__(
        self,
        reading: Reading,
        operations: tuple[Operation, ...],
        run: Pass,
        state: State | None,
    ) -> None:
        self._description = _description(reading, operations)
        self.run = run
        self._stage = build(reading, operations, run)
        self._pid = os.getpid()
        self._failure: Exception | None = None
        self._is_closed = False
        if state is not None:
            self._stage.load(state)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:  # noqa: ANN401 - the result of map()
        self._check()
        try:
            return next(self._stage)[0]
        except StopIteration:
            self._fail(StopIteration())
            raise
        except Exception as error:
            self._fail(error)
            raise
        except BaseException as error:  # Ctrl-C: an element may be lost
            self._fail(RuntimeError(f"{type(error).__name__} has interrupted the iterator"))
            raise

    def _fail(self, error: Exception) -> None:
        """Read no more. (The traceback keeps the iterator alive, so the threads are ended here.)"""
        self._failure = error
        self._stage.close()

    def state_dict(self) -> State:
        """Return the position of the iterator, for pickling: load_state_dict() continues there.

        Its size: a few kilobytes, and every element in the buffers of shuffle() and
        prefetch(). Raises the error of an iterator that has failed, or that prefetch() has
        found ahead, and RuntimeError if Ctrl-C has interrupted it.
        """
        self._check(at_end=True)
        return {
            "version": _STATE_VERSION,
            "dataset": self._description,
            **asdict(self.run),
            "stages": self._stage.state(),
        }

    def close(self) -> None:
        """End the threads, and close the files. A later next() raises ValueError."""
        if not self._is_closed and self._pid == os.getpid():
            self._stage.close()
        self._is_closed = True

    def _check(self, at_end: bool = False) -> None:
        if self._is_closed:
            raise ValueError("the iterator is closed")
        if self._pid != os.getpid():
            raise RuntimeError(
                "the iterator was begun by another process, whose threads read for it; "
                "begin one here: iter(dataset)"
            )
        if self._failure is not None and not (at_end and isinstance(self._failure, StopIteration)):
            raise self._failure.with_traceback(None)


def _description(reading: Reading, operations: tuple[Operation, ...]) -> list[str]:
    """Return the properties that two data sets must share to exchange their states."""
    how = (*reading.files, f"interleave({reading.cycle_length}, {reading.block_length})")
    calls = []
    for one in operations:
        # Functions cannot be compared.
        arguments = () if one.stage in (Map, Filter) else one.arguments
        calls.append(f"{one.stage.__name__.lower()}({', '.join(map(str, arguments))})")
    return [*how, *calls]


def _difference(saved: list[str], own: list[str]) -> str:
    for ours, theirs in zip(own, saved, strict=False):
        if ours != theirs:
            return f"{theirs} there, {ours} here"
    return f"{len(saved)} files and calls there, {len(own)} here"


def _at_least(least: int, name: str, value: SupportsIndex) -> int:
    number = operator.index(value)
    if number < least:
        raise ValueError(f"{name} is {least} at least, not {number}")
    return number
