"""Health: a pack's records as a map, by their size or their state, and a scrub that checks them.

The map has rows of cells, each a range of records, so it has the same size for a thousand records
and ten million.

Concurrency: any thread starts and stops the scrub, whose results grow while it runs.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from itertools import groupby, pairwise
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ffrfs.errors import text_within
from ffrfs.mount.stats import units
from ffrfs.printable import printable
from ffrfs.view.collection import Collection
from ffrfs.view.job import Job
from ffrfs.view.page import collection_of, onward, page

_CELLS_MAX = 16_000
_LEVEL_COUNT = 7
_UNKNOWN, _GOOD, _DAMAGED = "unknown", "good", "damaged"
_STEP_SIZE, _STEP_COUNT = 32 << 20, 1 << 16
_FAULTS_MAX = 1000


class Scrub:
    """Reads every record in the background, and keeps those that are damaged.

    `damaged`: the numbers of the damaged records, in order; `faults`: the places (Place) of the
    first of them, and what is wrong.
    """

    def __init__(self, collection: Collection) -> None:
        self._collection = collection
        self._lock = threading.Lock()
        self._begin()

    def _begin(self) -> None:
        self.damaged: list[int] = []
        self.faults: list[dict[str, Any]] = []
        self.job = Job(self._read, self._collection.count, "records")

    def start(self) -> None:
        """Begin from the first record, unless it is running."""
        with self._lock:
            if self.job.progress().is_running:
                return
            if self.job.has_begun:
                self._begin()
            self.job.start()

    def stop(self) -> None:
        with self._lock:
            self.job.stop()

    def _read(self, job: Job[bool]) -> bool:
        count = self._collection.count
        size = self._collection.size_before(count) // max(count, 1)
        step = max(1, min(_STEP_COUNT, _STEP_SIZE // max(size, 1)))
        for first in range(0, count, step):
            end = min(first + step, count)
            for number, error in self._collection.verify(first, end - first):
                self.damaged.append(number)
                if len(self.faults) < _FAULTS_MAX:
                    place = self._collection.place(number)
                    reason = printable(text_within(error, place.pack))
                    self.faults.append({"number": number, **place._asdict(), "reason": reason})
            job.tick(end - first)
        return True


def health(request: Request) -> Response:
    scrub: Scrub = request.app.state.scrub
    order = request.query_params.get("scrub")
    if order in ("0", "1"):
        (scrub.start if order == "1" else scrub.stop)()
        return onward(request, "scrub")
    collection = collection_of(request)
    by = "size" if request.query_params.get("by") == "size" else "state"
    bounds = _bounds(collection.count)
    progress = scrub.job.progress()
    levels, titles = _sizes(request, collection, bounds) if by == "size" else _states(scrub, bounds)
    columns = _columns(len(bounds) - 1)
    counts = dict.fromkeys(titles, 0)
    for level, (first, end) in zip(levels, pairwise(bounds), strict=True):
        counts[titles[level]] += end - first
    damaged_count = len(scrub.damaged)
    if by == "state":  # a cell has good records beside a damaged one
        counts[_DAMAGED] = damaged_count
        # Damage is known before its batch is done.
        counts[_GOOD] = max(progress.done - damaged_count, 0)
        counts[_UNKNOWN] = collection.count - progress.done
    drawn = _paths(levels, columns)
    values: dict[str, Any] = {
        "by": by,
        "count": collection.count,
        "size": collection.size_before(collection.count),
        "jobs": [progress],
        "has_begun": scrub.job.has_begun,
        "is_over": scrub.job.result is not None,
        "bytes_per_s": collection.size_before(progress.done) / (progress.seconds or 1.0),
        "records_per_cell": bounds[1] - bounds[0] if len(bounds) > 1 else 0,
        "columns": columns,
        "rows": -(-(len(bounds) - 1) // columns),
        "levels": [
            {"level": level, "title": title, "records": counts[title], "path": drawn[level]}
            for level, title in enumerate(titles)
        ],
        "damaged_count": damaged_count,
        "damaged": scrub.faults[:],
    }
    return page(request, "health.html", values)


def _bounds(count: int) -> list[int]:
    """Return the first records of all cells, and last the number of all records."""
    step = -(-count // _CELLS_MAX) or 1
    return [*range(0, count, step), count]


def _columns(cell_count: int) -> int:
    """Return a width that makes the map about three times as wide as it is high."""
    return max(int((3 * cell_count) ** 0.5), min(cell_count, 40), 1)


def _sizes(
    request: Request, collection: Collection, bounds: Sequence[int]
) -> tuple[list[int], list[str]]:
    """Return a level for each cell, by the mean size of its records, and the levels' titles."""
    state = request.app.state
    if not hasattr(state, "cell_sizes"):  # the data set does not change
        before = [collection.size_before(number) for number in bounds]
        counts = [max(end - first, 1) for first, end in pairwise(bounds)]
        state.cell_sizes = [
            (end - first) / count
            for (first, end), count in zip(pairwise(before), counts, strict=True)
        ]
    sizes: list[float] = state.cell_sizes
    ordered = sorted(sizes)
    places = (len(ordered) * part // _LEVEL_COUNT for part in range(1, _LEVEL_COUNT))
    ends = sorted({ordered[place] for place in places}) if ordered else []
    edges = map(units.size, (*ordered[:1], *ends, *ordered[-1:]))
    titles = [f"{low} to {high}" for low, high in pairwise(edges)]
    return [bisect_left(ends, size) for size in sizes], titles


def _states(scrub: Scrub, bounds: Sequence[int]) -> tuple[list[int], list[str]]:
    titles = [_UNKNOWN, _GOOD, _DAMAGED]
    done = scrub.job.progress().done
    levels = [1 if end <= done else 0 for end in bounds[1:]]
    for number in scrub.damaged[:]:
        levels[number // (bounds[1] - bounds[0])] = 2
    return levels, titles


def _paths(levels: Sequence[int], columns: int) -> dict[int, str]:
    """Return for each level the outline of its cells, each 1 wide and high."""
    found: defaultdict[int, list[str]] = defaultdict(lambda: [""])
    for row, begin in enumerate(range(0, len(levels), columns)):
        column = 0
        for level, run in groupby(levels[begin : begin + columns]):
            width = len([*run])
            found[level].append(f"M{column} {row}h{width}v1h-{width}z")
            column += width
    return defaultdict(str, {level: "".join(parts) for level, parts in found.items()})


ROUTES = [Route("/health", health)]
