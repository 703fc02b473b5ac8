"""A piece of a listing: files that follow each other in one directory.

In a plan a piece is a line of JSON, and some thousand files are a block of such lines. Lines that
are read back are checked, since the file may be damaged, or foreign.

Not here: the file of the plan (plan_file.py), listing (listing.py).
Concurrency: values, which no thread changes.
"""

from __future__ import annotations

import contextlib
import json
import os
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ffrfs.errors import FfrfsError, FormatError

# The number of files in a block; a directory with more is several pieces.
BLOCK_COUNT = 4096
PLAN_NAME = ".ffrfs-plan"  # of a plan that is kept in the directory of its set
WAITING_PREFIX = ".ffrfs-append-"  # of the directory in which shards wait that will be added
KEPT_REMEDY = (
    f"remove it, and with it the shards of a set that was new, or {WAITING_PREFIX}* of one that "
    "was added to"
)

# 4096 names of 255 bytes, each in a directory of its own 1024 deep, would be more: refused.
_BLOCK_SIZE_MAX = 256 << 20
_DEPTH_MAX = 1024
_NO_NAMES = frozenset(("", ".", ".."))
_MODES = frozenset(range(0o10000))  # permissions
_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1


@dataclass(frozen=True, slots=True)
class Piece:
    """Files of the directory `folder` ("a/b", "" is the root), and links in it.

    `above`: permissions and time of the root, "a" and "a/b". A directory without files or links
    is an empty one. `tags`: of objects in a bucket, values that change with their content.
    `origin`: the files share the record of an earlier file, which has this path.
    """

    folder: str
    above: tuple[tuple[int, int], ...]
    names: Sequence[str]
    sizes: Sequence[int]
    modes: Sequence[int]
    mtimes_ns: Sequence[int]
    links: Sequence[tuple[str, str, int]] = ()  # name, target, time
    tags: Sequence[str] = ()
    origin: str = ""

    @property
    def file_count(self) -> int:
        return len(self.names)

    @property
    def record_count(self) -> int:
        return 0 if self.origin else len(self.names)

    def path(self, number: int) -> str:
        name = self.names[number]
        return f"{self.folder}/{name}" if self.folder else name

    def part(self, first: int, end: int) -> Piece:
        """Return the files from `first` to before `end`; links belong to the part with file 0."""
        if first == 0 and end >= len(self.names):
            return self
        part = self.chosen(range(*slice(first, end).indices(len(self.names))))
        return part if first == 0 else replace(part, links=())

    def chosen(self, files: Sequence[int]) -> Piece:
        """Return a piece of these files, and of all the links."""
        names, sizes, modes, times = self.names, self.sizes, self.modes, self.mtimes_ns
        return replace(
            self,
            names=[names[file] for file in files],
            sizes=[sizes[file] for file in files],
            modes=[modes[file] for file in files],
            mtimes_ns=[times[file] for file in files],
            tags=[self.tags[file] for file in files] if self.tags else (),
        )

    def line(self) -> str:
        modes = self.modes
        is_one = len(modes) > 0 and modes.count(modes[0]) == len(modes)
        fields = [
            self.folder,
            self.above,
            "/".join(self.names),
            self.sizes,
            modes[0] if is_one else modes,
            self.mtimes_ns,
            self.links,
        ]
        more = [self.tags, self.origin] if self.origin else [self.tags] if self.tags else []
        return json.dumps(
            [*fields, *more],
            ensure_ascii=False,
            separators=(",", ":"),
            check_circular=False,
        )

    @classmethod
    def parse(cls, line: str) -> Piece:
        """Return the piece of a line. Raises ValueError for text that line() never makes."""
        folder, above, joined, sizes, modes, times, links, *more = json.loads(line)
        names = joined.split("/") if joined else []
        if isinstance(modes, int):
            modes = [modes] * len(names)
        tags = more[0] if more else []
        origin = more[1] if len(more) > 1 else ""
        if not (len(names) == len(sizes) == len(modes) == len(times) <= BLOCK_COUNT):
            raise ValueError("numbers of names and values differ")
        if tags and len(tags) != len(names):
            raise ValueError("numbers of names and tags differ")
        steps = folder.split("/") if folder else []
        if len(above) != len(steps) + 1 or len(steps) > _DEPTH_MAX:
            raise ValueError("directories without what is known of them")
        check_names([*steps, *names, *(origin.split("/") if origin else ())])
        _check_numbers([*sizes, *modes, *times, *(value for pair in above for value in pair)])
        if not {*modes, *(mode for mode, _ in above)} <= _MODES:
            raise ValueError("permissions that no file has")
        if sizes and min(sizes) < 0:
            raise ValueError("a size below 0")
        for name, target, time in links:
            check_names([name])
            _check_numbers([time])
            link_bytes(target)
        return cls(
            folder,
            tuple((mode, time) for mode, time in above),
            names,
            sizes,
            modes,
            times,
            [(name, target, time) for name, target, time in links],
            [str(tag) for tag in tags],
            origin,
        )


def link_text(target: bytes) -> str:
    """Return the target of a link as plans have it: UTF-8, whatever the locale's encoding is."""
    return target.decode(errors="surrogateescape")


def link_bytes(target: str) -> bytes:
    """Undo link_text(). Raises UnicodeEncodeError for text that link_text() never makes."""
    return target.encode(errors="surrogateescape")


def encode(lines: Sequence[str]) -> bytes:
    """Return the block of pieces, each as line() gives it."""
    # Targets of links may have any bytes.
    return zlib.compress("\n".join(lines).encode(errors="surrogateescape"), 1)


def decode(block: bytes, place: str) -> list[Piece]:
    """Return the pieces of a block. Raises FormatError, naming `place`."""
    with refusing(place):
        unpacker = zlib.decompressobj()
        text = unpacker.decompress(block, _BLOCK_SIZE_MAX)
        if not unpacker.eof:
            raise bad_plan(place, "a block that is cut off, or too large")
        if text.count(b"\n") >= BLOCK_COUNT:
            raise bad_plan(place, "a block of too many lines")
        lines = text.decode(errors="surrogateescape").split("\n") if text else []
        return [Piece.parse(line) for line in lines]


@contextlib.contextmanager
def refusing(place: str) -> Iterator[None]:
    """Raise FormatError, naming `place`, for pieces that the block cannot use."""
    try:
        yield
    except (zlib.error, ValueError, TypeError, AttributeError, RecursionError) as error:
        if isinstance(error, FfrfsError):
            raise
        raise bad_plan(place, f"a block that no plan has ({error})") from None


@dataclass(frozen=True)
class Pieces:
    """Files that follow each other in a plan, in the order of the set. Any number may iterate.

    They begin before file `first` of the first block, and end before file `end` of the last one
    (None: at its end). `place`: the plan, for errors. FormatError for a block that is damaged.
    """

    blocks: tuple[bytes, ...]
    first: int
    end: int | None
    place: str

    def __iter__(self) -> Iterator[Piece]:
        last = len(self.blocks) - 1
        for number, block in enumerate(self.blocks):
            first = self.first if number == 0 else 0
            end = self.end if number == last else None
            yield from _within(decode(block, self.place), first, end)


def _within(pieces: Sequence[Piece], first: int, end: int | None) -> Iterator[Piece]:
    """Yield the files from `first` to before `end` of a block, in pieces."""
    before = 0
    for piece in pieces:
        after = before + piece.file_count
        if piece.file_count == 0:
            if first <= before and (end is None or before < end):
                yield piece
        elif after > first and (end is None or before < end):
            stop = piece.file_count if end is None else min(end - before, piece.file_count)
            yield piece.part(max(first - before, 0), stop)
        before = after


def bad_plan(place: str, reason: str) -> FormatError:
    """Return the error of the plan at `place`. No command makes a kept one again."""
    remedy = KEPT_REMEDY if os.path.basename(place) == PLAN_NAME else "make the plan again"
    return FormatError.at(place, f"bad plan: {reason}; {remedy}")


def check_names(names: Sequence[str]) -> None:
    """Raise ValueError for a name that no directory has, UnicodeEncodeError."""
    joined = "".join(names)
    if not _NO_NAMES.isdisjoint(names) or "\0" in joined or "/" in joined:
        raise ValueError("a name that no directory has")
    joined.encode()


def _check_numbers(numbers: Sequence[int]) -> None:
    if not set(map(type, numbers)) <= {int}:
        raise ValueError("no number")
    if numbers and (min(numbers) < _INT64_MIN or max(numbers) > _INT64_MAX):
        raise ValueError("no number of 64 bits")
