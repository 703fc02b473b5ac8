"""ReadFromPack and ReadFromTFRecord: sources that Beam can split at any record.

A position is the number of a record, counted over all files.

Not here: cutting files into ranges and reading one (ffrfs.folder).
Concurrency: a source is immutable; each read opens its files itself.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from typing import Any

from apache_beam import PTransform, coders
from apache_beam.io.iobase import BoundedSource, Read, SourceBundle
from apache_beam.io.range_trackers import OffsetRangeTracker

from ffrfs.errors import FormatError
from ffrfs.folder.range_reader import OnError, read_range
from ffrfs.folder.ranges import RangeCutter, RecordFile, RecordRange, check_on_error, cut_files
from ffrfs.folder.tree import PathType
from ffrfs.remote.url import is_url


class ReadFromPack(PTransform):  # type: ignore[misc]
    """The files of packs, as tuples (path, bytes); links are left out.

    `pattern`: a pack, a set (a directory of packs), a list of either, or a glob pattern. Packs
    that it matches are one tree; each may be a URL. They are opened where the pipeline is made,
    and again by the workers, which need the same paths.

    Every byte is verified before it is an element. Damage raises ChecksumError in the worker,
    naming file, record and path; with `on_error="skip"` a damaged file is left out with a
    PackWarning. A function of the error and the path, or the record's number, which is called in
    the worker, returns the bytes that take its place, or None to leave it out.

    Raises FormatError, OSError here for packs that cannot be opened or do not fit together.
    """

    def __init__(
        self, pattern: PathType | Sequence[PathType], *, on_error: OnError = "raise"
    ) -> None:
        super().__init__()
        check_on_error(on_error)
        cutter = RangeCutter(_matched(pattern))
        if cutter.kind != "pack":
            raise FormatError.at(cutter.files[0].path, "is no pack of a directory")
        self._source = _Source(cutter.files, None, on_error)

    def expand(self, begin: Any) -> Any:  # noqa: ANN401 - untyped
        return begin | Read(self._source).with_output_types(tuple[str, bytes])


class ReadFromTFRecord(PTransform):  # type: ignore[misc]
    """The records of TFRecord files, decoded by `coder`, in place of Beam's ReadFromTFRecord.

    `pattern`, `on_error` and errors: as for ReadFromPack; a directory means the TFRecord files
    in it. Compressed files, which have no records to split at, raise FormatError.
    """

    def __init__(
        self,
        pattern: PathType | Sequence[PathType],
        coder: Any = coders.BytesCoder(),  # noqa: ANN401, B008 - as Beam has it
        *,
        on_error: OnError = "raise",
    ) -> None:
        super().__init__()
        check_on_error(on_error)
        self._type = coder.to_type_hint()
        files = RangeCutter(_matched(pattern), "tfrecord").files
        self._source = _Source(files, coder, on_error)

    def expand(self, begin: Any) -> Any:  # noqa: ANN401 - untyped
        return begin | Read(self._source).with_output_types(self._type)


def _matched(pattern: PathType | Sequence[PathType]) -> PathType | Sequence[PathType]:
    """Return the paths that a glob pattern matches; what matches nothing stays as it is."""
    if not isinstance(pattern, str | os.PathLike):
        return pattern
    name = os.fspath(pattern)
    return name if is_url(name) or os.path.lexists(name) else sorted(glob.glob(name)) or name


class _Source(BoundedSource):  # type: ignore[misc]
    """The records of `files`, from position 0 on. `coder`: None for the files of packs."""

    def __init__(self, files: Sequence[RecordFile], coder: Any, on_error: OnError) -> None:  # noqa: ANN401
        self._files = [file for file in files if file.record_count]
        self._end = sum(file.record_count for file in files)
        self._coder = coder
        self._on_error: OnError = on_error

    def estimate_size(self) -> int:
        return sum(file.row_size for file in self._files)

    def split(
        self,
        desired_bundle_size: int,
        start_position: int | None = None,
        stop_position: int | None = None,
    ) -> Iterator[SourceBundle]:
        tracker = self.get_range_tracker(start_position, stop_position)
        count = -(-self.estimate_size() // max(1, desired_bundle_size))
        for part in _within(tracker, cut_files(self._files, max(1, count))):
            first = part.file.first_number
            yield SourceBundle(part.byte_count, self, first + part.first, first + part.end)

    def get_range_tracker(
        self, start_position: int | None, stop_position: int | None
    ) -> OffsetRangeTracker:
        stop = self._end if stop_position is None else stop_position
        return OffsetRangeTracker(start_position or 0, stop)

    def read(self, range_tracker: OffsetRangeTracker) -> Iterator[Any]:
        whole = [RecordRange(file, 0, file.record_count) for file in self._files]
        for part in _within(range_tracker, whole):
            before = None
            for batch in read_range(part, self._on_error):
                for name, data, record in zip(*batch, strict=True):
                    position = part.file.first_number + record
                    # Files that share a record stay together: Beam cannot split between them.
                    if position != before and not range_tracker.try_claim(position):
                        return
                    before = position
                    content = bytes(data)
                    yield self._coder.decode(content) if self._coder else (name, content)


def _within(tracker: OffsetRangeTracker, parts: Sequence[RecordRange]) -> Iterator[RecordRange]:
    """Yield the parts, cut off at the ends of the tracker."""
    start, stop = tracker.start_position(), tracker.stop_position()
    for part in parts:
        number = part.file.first_number
        first, end = max(part.first, start - number), min(part.end, stop - number)
        if first < end:
            yield RecordRange(part.file, first, end)
