"""Sums up files in several processes, with the same result as in one.

The parts are distributed in order, and merged in order: units to files, files to the whole.
Concurrency: the caller's thread, and processes of the default start method. They check between
two batches whether to end, so Ctrl-C waits for a batch at most.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Sequence
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from itertools import chain, islice

from ffrfs.errors import FfrfsError
from ffrfs.record.processes import check_end, interrupts_held, open_pool
from ffrfs.remote.stream import size_of
from ffrfs.schema.source import Part, Tick, parts_of, summarize
from ffrfs.schema.summary import DatasetSummary
from ffrfs.tfrecord.iterator import OnError

# The number of parts per process that are finished or in work, and not merged yet.
_AHEAD = 3


def summarize_files(
    files: Sequence[str], jobs: int, on_error: OnError, tick: Tick
) -> DatasetSummary:
    """Sum up all files, in order. `tick` is called for each batch, or each part, that was read."""
    of_files = list(_parts(files, jobs, on_error))
    parts = list(chain.from_iterable(of_files))
    jobs = min(jobs, len(parts))
    found = DatasetSummary()
    if jobs <= 1:
        for part in parts:
            found.merge(summarize(part, on_error, tick), part.file)
        return found
    with closing(_summaries(parts, jobs, on_error, tick)) as summaries:
        for file, of_file in zip(files, of_files, strict=True):
            whole = DatasetSummary()
            for part, summary in zip(of_file, summaries, strict=False):
                # The summary of a whole file is merged from its units already.
                whole = summary if part.length is None else whole
                if part.length is not None:
                    whole.merge(summary, file)
            found.merge(whole, file)
    return found


def _parts(files: Sequence[str], jobs: int, on_error: OnError) -> Generator[list[Part]]:
    """Yield the parts of each file; large files are divided if there are too few files."""
    sizes = [size_of(file) for file in files]
    total = sum(sizes)
    for file, size in zip(files, sizes, strict=True):
        is_large = 2 * jobs * size > total
        # With "skip", the units are known only after reading the records before them.
        yield parts_of(file, jobs > 1 and is_large and on_error == "raise")


def _summaries(
    parts: Sequence[Part], jobs: int, on_error: OnError, tick: Tick
) -> Generator[DatasetSummary]:
    ahead: deque[Future[tuple[DatasetSummary, int]]] = deque()
    rest = iter(parts)
    try:
        with open_pool(jobs) as executor:
            while True:
                with interrupts_held():
                    for part in islice(rest, _AHEAD * jobs - len(ahead)):
                        ahead.append(executor.submit(_summarize, part, on_error))
                if not ahead:
                    return
                summary, size = ahead.popleft().result()
                tick(summary.record_count + summary.skipped_count, size)
                yield summary
    except BrokenProcessPool:
        raise FfrfsError(
            "a process that read records was killed, for example because memory was short; "
            "use fewer of them (--jobs)"
        ) from None


def _summarize(part: Part, on_error: OnError) -> tuple[DatasetSummary, int]:
    """Return the summary of a part, and the bytes of its records."""
    total = 0

    def tick(_: int, size: int) -> None:
        nonlocal total
        total += size
        check_end()

    return summarize(part, on_error, tick), total
