"""The file that says which blocks of an object are present.

It has a header of 4096 bytes and four arrays, each padded with zeros to a multiple of 4096 bytes.
The header is `_HEAD`, the JSON of a `Label`, zeros, and at 0xffc the CRC-32C of the bytes before.
The arrays have for each block: `live`, 1 byte for readers (0: absent, else a number that changes
with each fill; a reader looks at it before and after it reads data); `durable`, 1 byte (1: the
block was synced and so outlasts a crash of the machine; 2: taken back, and that perhaps not
synced); `used`, 8 bytes, the microseconds since 1970 when it was last filled or read; `fills`,
1 byte, the number of its last fill. `live` is not synced: after a boot it is made from `durable`.

The file is not mapped into memory: another process may truncate it at any time. Blocks beyond
its end are absent. Not here: the data file and the order of writes (cached_object.py).

Concurrency: any thread; to change a block, hold its byte lock (BLOCKS_AT + block).
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from typing import TYPE_CHECKING

from ffrfs._native import crc32c
from ffrfs.errors import CacheError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MAGIC = b"ffrfscb1"
VERSION = 1
BLOCK_SIZE_LOG2 = 20
BLOCK_SIZE = 1 << BLOCK_SIZE_LOG2
HEADER_SIZE = 4096
OBJECT_SIZE_MAX = 1 << 46

# Users of the object share this lock; to make, repair or remove it, a process holds it alone.
USE_AT = (1 << 62) - 1
BLOCKS_AT = 1 << 62

_HEAD = struct.Struct("<8sIIQQ16sI")  # magic, version, log2, size, blocks, boot, length of JSON
_CRC = struct.Struct("<I")
_TEXT_MAX = HEADER_SIZE - _HEAD.size - _CRC.size
_WITHDRAWN = b"\2"  # in `durable`: cleared, but not synced yet
_PART = 1 << 17  # blocks of an array that are read at once


@dataclass(frozen=True)
class Label:
    """The identity of an object: `name` is that of its files, `url` and `pin` are for people."""

    name: str
    url: str
    pin: str = ""

    def to_bytes(self) -> bytes:
        """Return the label as JSON, shortened if it does not fit into a header."""
        for length, pin in ((_TEXT_MAX, self.pin), (_TEXT_MAX, ""), (300, "")):
            fields = {"name": self.name, "url": self.url[:length], "pin": pin}
            text = json.dumps(fields, ensure_ascii=False).encode(errors="replace")
            if len(text) <= _TEXT_MAX:
                return text
        return json.dumps({"name": self.name, "url": "", "pin": ""}).encode()

    @classmethod
    def from_bytes(cls, text: bytes) -> Label:
        """Return the label in the text. Raises ValueError."""
        try:
            fields = json.loads(text)
            found = [fields[name] for name in ("name", "url", "pin")]
        except (RecursionError, KeyError, TypeError):
            raise ValueError("its text is damaged") from None
        if not all(isinstance(value, str) for value in found):
            raise ValueError("its text is damaged")
        return cls(*found)


def object_name(url: str, version: str, size: int) -> str:
    """Return the name of the two files, without their endings."""
    return sha256(f"{url}\0{version}\0{size}".encode(errors="surrogatepass")).hexdigest()


@cache
def boot_id() -> bytes:
    """Return an id that differs after each boot; zeros if the kernel has none."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="utf-8") as file:
            return bytes.fromhex(file.read().strip().replace("-", ""))[:16].ljust(16, b"\0")
    except (OSError, ValueError):
        return bytes(16)


class StateFile:
    """An open state file of an object of `size` bytes."""

    def __init__(self, fd: int, size: int) -> None:
        self.fd, self.size = fd, size
        self.block_count = count = -(-size // BLOCK_SIZE)
        self._live = HEADER_SIZE
        self._durable = self._live + _padded(count)
        self._used = self._durable + _padded(count)
        self._fills = self._used + _padded(8 * count)
        self.file_size = self._fills + _padded(count)

    def size_of(self, first: int, count: int = 1) -> int:
        return min(count * BLOCK_SIZE, self.size - first * BLOCK_SIZE)

    # -- the header

    def write_header(self, label: Label, boot: bytes) -> None:
        text = label.to_bytes()
        numbers = (VERSION, BLOCK_SIZE_LOG2, self.size, self.block_count, boot, len(text))
        head = (_HEAD.pack(MAGIC, *numbers) + text).ljust(HEADER_SIZE - _CRC.size, b"\0")
        _pwrite(self.fd, head + _CRC.pack(crc32c(head)), 0)

    def read_header(self, name: str) -> tuple[Label, bytes]:
        """Return the label, and the boot in which `live` is right. Raises ValueError: the fault."""
        head = os.pread(self.fd, HEADER_SIZE, 0)
        size, label, boot = parse_header(head)
        if size != self.size or label.name != name:
            raise ValueError("it belongs to another object")
        if os.fstat(self.fd).st_size != self.file_size:
            raise ValueError("its length is wrong")
        return label, boot

    # -- one block

    def number(self, block: int) -> int:
        """Return the block's number in `live`; 0 if it is absent."""
        return (os.pread(self.fd, 1, self._live + block) or b"\0")[0]

    def is_durable(self, block: int) -> bool:
        return os.pread(self.fd, 1, self._durable + block) == b"\1"

    def may_be_durable(self, first: int, count: int = 1) -> bool:
        """Return whether a crash may restore a block: `durable` is not cleared, or not synced."""
        return any(os.pread(self.fd, count, self._durable + first))

    def set_durable(self, first: int, durable: bool, count: int = 1) -> None:
        _pwrite(self.fd, bytes([durable]) * count, self._durable + first)

    def withdraw(self, block: int) -> None:
        """Make a block absent, also after a crash, unless the machine crashes before a sync."""
        self.set_absent(block)
        if self.is_durable(block):
            _pwrite(self.fd, _WITHDRAWN, self._durable + block)

    def set_absent(self, first: int, count: int = 1) -> None:
        _pwrite(self.fd, bytes(count), self._live + first)

    def set_present(self, first: int, count: int = 1) -> bytes:
        """Mark blocks as present; return their numbers, each different from the last fill's."""
        last = os.pread(self.fd, count, self._fills + first).ljust(count, b"\0")
        numbers = bytes(number % 255 + 1 for number in last)
        # `fills` is written first, so that no number comes twice in a row, even after a crash here.
        _pwrite(self.fd, numbers, self._fills + first)
        _pwrite(self.fd, numbers, self._live + first)
        return numbers

    def set_used(self, first: int, count: int, time_us: int) -> None:
        # NumPy is too slow here: readers report blocks one by one, thousands in a second.
        _pwrite(self.fd, time_us.to_bytes(8, "little") * count, self._used + 8 * first)

    # -- whole arrays

    def numbers(self, first: int, count: int) -> bytes:
        """Return `live` of some blocks."""
        return os.pread(self.fd, count, self._live + first).ljust(count, b"\0")

    # Part by part, as a file may claim more blocks than memory can list.

    # Not by NumPy, whose loading would take longer than to count.
    def present_count(self) -> int:
        return sum(len(live) - live.count(0) for _, live in self._parts(self._live))

    def durable_count(self) -> int:
        return sum(durable.count(1) for _, durable in self._parts(self._durable))

    def present(self) -> Iterator[NDArray[np.int64]]:
        return self._where(self._live, lambda live: live != 0)

    def durable(self) -> Iterator[NDArray[np.int64]]:
        return self._where(self._durable, lambda durable: durable == 1)

    def flags(self, parts: Iterator[NDArray[np.int64]]) -> NDArray[np.bool_]:
        """Return for each block whether it is in one of the parts."""
        import numpy as np

        found = np.zeros(self.block_count, bool)
        for part in parts:
            found[part] = True
        return found

    def unsynced(self) -> Iterator[tuple[int, int]]:
        """Yield (block, number) of the blocks that are present and not durable."""
        # Not by NumPy, whose loading would delay a mount.
        for begin in range(0, self.block_count, _PART):
            count = min(_PART, self.block_count - begin)
            live = self.numbers(begin, count)
            if not any(live):
                continue
            durable = os.pread(self.fd, count, self._durable + begin).ljust(count, b"\0")
            for block, (number, is_durable) in enumerate(zip(live, durable, strict=True), begin):
                if number and not is_durable:
                    yield block, number

    def used(self, blocks: NDArray[np.int64]) -> NDArray[np.uint64]:
        """Return when each of the blocks, in ascending order, was last used; 0: never."""
        import numpy as np

        times = np.zeros(len(blocks), "<u8")
        for begin in range(0, self.block_count, _PART):
            low, high = np.searchsorted(blocks, (begin, begin + _PART))
            if low == high:
                continue
            first = int(blocks[low])
            part = np.zeros(int(blocks[high - 1]) + 1 - first, "<u8")
            raw = os.pread(self.fd, part.nbytes, self._used + 8 * first)
            part[: len(raw) // 8] = np.frombuffer(raw, "<u8", len(raw) // 8)
            times[low:high] = part[blocks[low:high] - first]
        return times

    def _where(
        self, array: int, test: Callable[[NDArray[np.uint8]], NDArray[np.bool_]]
    ) -> Iterator[NDArray[np.int64]]:
        import numpy as np

        for begin, raw in self._parts(array):
            yield np.flatnonzero(test(np.frombuffer(raw, np.uint8))) + begin

    def _parts(self, array: int) -> Iterator[tuple[int, bytes]]:
        for begin in range(0, self.block_count, _PART):
            yield begin, os.pread(self.fd, min(_PART, self.block_count - begin), array + begin)

    def after_boot(self, is_there: NDArray[np.bool_]) -> None:
        """Set `live` and `durable` to `is_there`, under an exclusive lock of the object."""
        import numpy as np

        for begin in range(0, self.block_count, _PART):
            part = is_there[begin : begin + _PART]
            raw = os.pread(self.fd, len(part), self._fills + begin).ljust(len(part), b"\0")
            numbers = np.where(part, np.frombuffer(raw, np.uint8) % 255 + 1, 0).astype(np.uint8)
            fills = np.where(part, numbers, np.frombuffer(raw, np.uint8)).astype(np.uint8)
            _pwrite(self.fd, fills.tobytes(), self._fills + begin)
            _pwrite(self.fd, numbers.tobytes(), self._live + begin)
            _pwrite(self.fd, part.astype(np.uint8).tobytes(), self._durable + begin)


def parse_header(head: bytes) -> tuple[int, Label, bytes]:
    """Return (size of the object, label, boot). Raises ValueError, which says the fault."""
    if len(head) != HEADER_SIZE or head[: len(MAGIC)] != MAGIC:
        raise ValueError("not a state file of a cache")
    _, version, log2, size, count, boot, length = _HEAD.unpack_from(head)
    if crc32c(head[: -_CRC.size]) != _CRC.unpack(head[-_CRC.size :])[0]:
        raise ValueError("the checksum of its header does not match")
    if version != VERSION or log2 != BLOCK_SIZE_LOG2:
        raise ValueError("made by another version of ffrfs")
    if size > OBJECT_SIZE_MAX or count != -(-size // BLOCK_SIZE) or length > _TEXT_MAX:
        raise ValueError("the numbers in its header contradict each other")
    return size, Label.from_bytes(head[_HEAD.size : _HEAD.size + length]), boot


def is_ours(head: bytes) -> bool:
    """Return whether a state file is one of ours, even if it is damaged.

    After a crash of the machine, a new file may be all zeros.
    """
    return head[: len(MAGIC)] == MAGIC or not any(head)


def check_size(url: str, size: int) -> None:
    if not 0 <= size <= OBJECT_SIZE_MAX:
        raise CacheError.at(url, f"has {size:,} bytes, too many for one object of a cache")


def _padded(size: int) -> int:
    return -(-size // 4096) * 4096


def _pwrite(fd: int, data: bytes, offset: int) -> None:
    with memoryview(data) as view:
        done = 0
        while done < len(view):
            done += os.pwrite(fd, view[done:], offset + done)
