"""ValueCounts: the counts of bytes values, the number of different ones, and their lengths.

It is exact for at most COUNTED_MAX different values, of COUNTED_SIZE_MAX bytes together. Beyond:
- `counts` keeps the frequent values (Misra and Gries): a count is too low by at most `error`,
  itself at most n / (k / 2) of n values, where k values are kept (COUNTED_MAX, or as many as
  COUNTED_SIZE_MAX bytes have);
- `unique` is estimated from the SKETCH_SIZE least hashes, with a standard error of 0.8 %.

Values that are not UTF-8, or longer than LABEL_MAX bytes, have no label: they are counted
together, and count in `unique` by their digests. LABEL_MAX lets COUNTED_SIZE_MAX bytes hold the
largest domain that is inferred.

Not here: the use of the counts (feature.py). Concurrency: one thread at a time.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

COUNTED_MAX = 50_000
COUNTED_SIZE_MAX = 8 << 20
SKETCH_SIZE = 1 << 14
LABEL_MAX = 64 << 10

_HASH_SIZE = 8
_DIGEST_SIZE = 16
_HASH_END = 2.0**64

Hashes = NDArray[np.uint64]


class ValueCounts:
    """Counts of values. `counts`: of the values with a label."""

    __slots__ = ("_digests", "_hashes", "_size", "counts", "error", "invalid_count", "large_count")

    def __init__(self) -> None:
        self.counts: Counter[bytes] = Counter()
        self.error = 0
        self.invalid_count = 0  # values that are not UTF-8, whatever their length
        self.large_count = 0  # UTF-8, but longer than LABEL_MAX
        self._size = 0  # of all keys of counts
        self._digests: set[bytes] = set()  # digests of the values without a label
        self._hashes: Hashes | None = None  # None: still exact

    @property
    def unique(self) -> int:
        """The number of different values."""
        if self._hashes is None:
            return len(self.counts) + len(self._digests)
        if len(self._hashes) < SKETCH_SIZE:
            return len(self._hashes)
        return round((SKETCH_SIZE - 1) / (float(self._hashes[-1]) / _HASH_END))

    def add(self, values: Sequence[bytes]) -> None:
        labels, others = self._divided(values)
        found = Counter(labels)
        digests = {_digest(value, _DIGEST_SIZE) for value in others}
        if self._hashes is not None:
            self._note(found, digests)
        else:
            self._digests |= digests
        self._count(found)

    def merge(self, other: ValueCounts) -> None:
        """Add the values of the other one, which stays unchanged."""
        self.invalid_count += other.invalid_count
        self.large_count += other.large_count
        self.error += other.error
        if other._hashes is not None:
            self._leave_exactness()
            self._keep_least(other._hashes)
        elif self._hashes is not None:
            self._note(other.counts, other._digests)
        else:
            self._digests |= other._digests
        self._count(other.counts)

    def _divided(self, values: Sequence[bytes]) -> tuple[Sequence[bytes], list[bytes]]:
        """Return the values with a label, and the others, which are counted here."""
        # Joining by an ASCII byte cannot make one character of the ends of two values.
        if max(map(len, values), default=0) <= LABEL_MAX and _is_text(b"\n".join(values)):
            return values, []
        labels, others = [], []
        for value in values:
            is_text = _is_text(value)
            if is_text and len(value) <= LABEL_MAX:
                labels.append(value)
                continue
            others.append(value)
            self.large_count += is_text
            self.invalid_count += not is_text
        return labels, others

    def _count(self, found: Counter[bytes]) -> None:
        self._size += sum(map(len, found.keys() - self.counts.keys()))
        self.counts.update(found)
        count = len(self.counts) + len(self._digests)
        if count > COUNTED_MAX or self._size > COUNTED_SIZE_MAX:
            self._leave_exactness()
            self._prune()

    def _leave_exactness(self) -> None:
        if self._hashes is None:
            self._hashes = np.empty(0, np.uint64)
            self._note(self.counts, self._digests)
            self._digests = set()

    def _note(self, labels: Iterable[bytes], digests: Iterable[bytes]) -> None:
        """Add these to the estimate of `unique`."""
        hashes = [_digest(label, _HASH_SIZE) for label in labels]
        hashes += [digest[:_HASH_SIZE] for digest in digests]
        self._keep_least(np.frombuffer(b"".join(hashes), "<u8"))

    def _keep_least(self, hashes: Hashes) -> None:
        assert self._hashes is not None
        self._hashes = np.union1d(self._hashes, hashes)[:SKETCH_SIZE]

    def _prune(self) -> None:
        """Keep the frequent half, again until the rest is small enough."""
        while len(self.counts) > COUNTED_MAX or self._size > COUNTED_SIZE_MAX:
            least = sorted(self.counts.values(), reverse=True)[len(self.counts) // 2]
            self.error += least
            kept = {value: count - least for value, count in self.counts.items() if count > least}
            self.counts = Counter(kept)
            self._size = sum(map(len, kept))


def _is_text(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def _digest(value: bytes, size: int) -> bytes:
    return hashlib.blake2b(value, digest_size=size).digest()
