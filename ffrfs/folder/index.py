"""The index record of a packed folder: a pickle, written opcode by opcode.

    0x00  9 bytes   "piouhjgbr"
    0x09  pickle    protocol 4, of nested collections.OrderedDict:
                    name → record number, or the OrderedDict of a folder

Byte for byte what `pickle.dumps(tree, 4)` makes of the reference's dicts (CPython's C
pickler: memo numbers, batches of 1000 items, frames of 64 KiB), but from any depth of
folders, where pickle's own recursion ends near 300, and without building those dicts.
Opcodes: https://github.com/python/cpython/blob/main/Lib/pickletools.py

Not here: reading an index (native core, which never unpickles).
"""

from __future__ import annotations

from collections.abc import Iterator

from ffrfs.folder.source import SourceTree

MAGIC = b"piouhjgbr"

_PROTOCOL_4 = b"\x80\x04"
_FRAME = b"\x95"  # u64 size
_NAME = b"\x8c"  # SHORT_BINUNICODE: u8 size, UTF-8; a name of Linux has at most 255 bytes
_MEMOIZE = b"\x94"
_GET_MEMO = b"h"  # BINGET: u8 memo number
_GET_MEMO_LONG = b"j"  # LONG_BINGET: u32 memo number
_STACK_GLOBAL = b"\x93"
_EMPTY_TUPLE = b")"
_REDUCE = b"R"
_MARK = b"("
_SET_ITEM = b"s"
_SET_ITEMS = b"u"
_STOP = b"."
_INT_1 = b"K"
_INT_2 = b"M"
_INT_4 = b"J"

_BATCH_COUNT = 1000
_FRAME_SIZE = 64 << 10
_SMALLEST_FRAME_SIZE = 4  # shorter ones go without a frame
_CLASS_MEMO = 2  # OrderedDict: memoised third, after its module's name and its own


def index_record(tree: SourceTree) -> bytes:
    """Return the index of `tree`; its files are numbered in the tree's order."""
    return MAGIC + _IndexPickler().dump(tree)


class _Dict:
    """A dict that is being written."""

    def __init__(self, tree: SourceTree) -> None:
        self.items: Iterator[tuple[str, int | SourceTree]] = iter(tree.items())
        self.left_count = len(tree)  # items not yet complete
        self.batch_left_count = 0  # of the batch that is open
        self.batch_end = b""


class _IndexPickler:
    def __init__(self) -> None:
        self._done = bytearray(_PROTOCOL_4)
        self._frame = bytearray()  # open, not yet in _done
        self._memo_count = 0
        # CPython has one object per character up to U+00FF, and the memo goes by object:
        # only a name of one such character is ever repeated by its memo number.
        self._short_names: dict[str, int] = {}
        self._record = 0

    def dump(self, tree: SourceTree) -> bytes:
        self._put_class()
        self._put_new_dict()
        stack = [_Dict(tree)]
        while stack:
            folder = self._put_items(stack[-1])
            if folder is not None:
                stack.append(folder)
                continue
            stack.pop()
            if stack:
                self._end_item(stack[-1])
        self._frame += _STOP
        self._close_frame()
        return bytes(self._done)

    def _put_items(self, target: _Dict) -> _Dict | None:
        """Write items up to and with the next folder's name; None at the end."""
        for name, child in target.items:
            if target.batch_left_count == 0:
                self._begin_batch(target)
            self._put_name(name)
            self._end_full_frame()
            if isinstance(child, dict):
                self._frame += _GET_MEMO + bytes([_CLASS_MEMO])
                self._end_full_frame()
                self._put_new_dict()
                return _Dict(child)
            self._put_record()
            self._end_item(target)
        return None

    def _begin_batch(self, target: _Dict) -> None:
        target.batch_left_count = min(target.left_count, _BATCH_COUNT)
        if target.batch_left_count == 1:
            target.batch_end = _SET_ITEM
        else:
            target.batch_end = _SET_ITEMS
            self._frame += _MARK

    def _end_item(self, target: _Dict) -> None:
        target.left_count -= 1
        target.batch_left_count -= 1
        if target.batch_left_count == 0:
            self._frame += target.batch_end

    def _put_class(self) -> None:
        for text in (b"collections", b"OrderedDict"):
            self._frame += _NAME + bytes([len(text)]) + text + _MEMOIZE
        self._frame += _STACK_GLOBAL + _MEMOIZE
        self._memo_count += 3

    def _put_new_dict(self) -> None:
        self._frame += _EMPTY_TUPLE + _REDUCE + _MEMOIZE
        self._memo_count += 1

    def _put_name(self, name: str) -> None:
        self._end_full_frame()
        if len(name) == 1 and name <= "\xff":
            memo = self._short_names.get(name)
            if memo is not None:
                self._put_memo(memo)
                return
            self._short_names[name] = self._memo_count
        data = name.encode()
        self._frame += _NAME + bytes([len(data)]) + data + _MEMOIZE
        self._memo_count += 1

    def _put_memo(self, memo: int) -> None:
        if memo < 1 << 8:
            self._frame += _GET_MEMO + bytes([memo])
        else:
            self._frame += _GET_MEMO_LONG + memo.to_bytes(4, "little")

    def _put_record(self) -> None:
        record = self._record
        self._record += 1
        if record < 1 << 8:
            self._frame += _INT_1 + bytes([record])
        elif record < 1 << 16:
            self._frame += _INT_2 + record.to_bytes(2, "little")
        else:
            self._frame += _INT_4 + record.to_bytes(4, "little", signed=True)

    def _end_full_frame(self) -> None:
        """The pickler does this before each object, and nowhere else."""
        if len(self._frame) >= _FRAME_SIZE:
            self._close_frame()

    def _close_frame(self) -> None:
        if len(self._frame) >= _SMALLEST_FRAME_SIZE:
            self._done += _FRAME + len(self._frame).to_bytes(8, "little")
        self._done += self._frame
        self._frame.clear()
