"""The plan of a directory: listed in parallel, brought into the order of the set, and cut.

The lists of workers go to a temporary file, one directory after the other as they come. At the
end the directories are read from it depth first. Memory holds the paths of the directories, some
150 bytes each, and one directory's files.

Not here: listing (listing.py), the file of the plan (plan_file.py).
Concurrency: one thread.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import zlib
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Executor
from typing import NamedTuple

from ffrfs.cluster.executors import adopted, slots
from ffrfs.cluster.file_task import carried
from ffrfs.cluster.listing import Folder, Listed, ListTask, list_folders
from ffrfs.cluster.piece import Piece
from ffrfs.errors import naming
from ffrfs.folder.progress import Progress
from ffrfs.packing.driver import drive
from ffrfs.packing.sources.folder_lister import ShownAgain, refuse_outside
from ffrfs.packing.sources.options import PackOptions
from ffrfs.packing.sources.selection import refuse_unmatched

# Directories that one task begins with, at most.
_FOLDERS_A_TASK = 64


class _Span(NamedTuple):
    """The place of a directory in the temporary file."""

    offset: int
    size: int


class FolderListing:
    """All of a directory, listed. `tmp_dir`: where the temporary file is (None: $TMPDIR, /tmp).

    `progress` gets the files and bytes that were found so far.

    Raises PackError for files that cannot be packed, OSError.
    """

    def __init__(
        self,
        root: str,
        options: PackOptions,
        executor: Executor,
        tmp_dir: str | None = None,
        progress: Progress | None = None,
    ) -> None:
        self._progress = progress
        self._file_count = self._byte_count = 0
        self.skipped: list[str] = []
        self._root, self._options = root, options
        self._outside: list[str] = []
        self._outside_count = 0
        self._shown_again = ShownAgain()
        self._unmatched = set(options.include or ())
        self._slots = slots(executor)
        self._todo: deque[str] = deque([""])
        self._spans: dict[str, _Span] = {}
        self._end = 0
        self._place = tmp_dir or tempfile.gettempdir()
        self._file = tempfile.TemporaryFile(prefix="ffrfs-plan-", dir=tmp_dir)  # noqa: SIM115 - close()
        try:
            drive(adopted(executor), self._slots, list_folders, self._take, self._keep)
            self._check()
        except BaseException:
            self.close()
            raise

    def pieces(self) -> Iterator[Piece]:
        """Yield the files in the order of the set: depth first, by the bytes of the names."""
        root = self._load("")
        if not (root.names or root.links or root.folders):
            yield Piece("", ((root.mode, root.mtime_ns),), [], [], [], [])
        stack = [self._walk("", ())]
        while stack:
            step = next(stack[-1], None)
            if step is None:
                stack.pop()
            elif isinstance(step, Piece):
                yield step
            else:
                stack.append(self._walk(*step))

    def _walk(
        self, path: str, above: tuple[tuple[int, int], ...]
    ) -> Iterator[Piece | tuple[str, tuple[tuple[int, int], ...]]]:
        """Yield pieces of one directory, and in their places the directories in it."""
        folder = self._load(path)
        stack = (*above, (folder.mode, folder.mtime_ns))
        links = folder.links
        for first, end, below in folder.split_by_folders():
            if first < end or links or (below is None and self._is_kept_empty(folder)):
                files = slice(first, end)
                yield Piece(
                    path,
                    stack,
                    folder.names[files],
                    folder.sizes[files],
                    folder.modes[files],
                    folder.mtimes_ns[files],
                    links,
                    folder.tags[files],
                )
                links = []
            if below is not None:
                yield (f"{path}/{below}" if path else below), stack

    def _is_kept_empty(self, folder: Folder) -> bool:
        is_empty = not (folder.names or folder.links or folder.folders)
        return is_empty and folder.is_asked_for and folder.path != ""

    def _take(self) -> ListTask | None:
        if not self._todo:
            return None
        # Few at the beginning, so that every worker has some.
        count = max(1, min(_FOLDERS_A_TASK, len(self._todo) // (2 * self._slots)))
        folders = tuple(self._todo.popleft() for _ in range(count))
        return ListTask(self._root, self._options, folders, carried())

    def _keep(self, _: ListTask, found: Listed | Exception) -> None:
        if isinstance(found, Exception):
            raise found
        for folder in found.folders:
            fields = dict(vars(folder))  # not asdict(), which would copy each name
            path = fields.pop("path")
            if folder.behind_link:
                place = os.path.join(self._root, path)
                self._shown_again.count(folder.behind_link, place, len(folder.names))
            block = zlib.compress(json.dumps(fields).encode(), 1)
            with naming(self._place):
                self._file.write(block)
            self._spans[path] = _Span(self._end, len(block))
            self._end += len(block)
            self._file_count += len(folder.sizes)
            self._byte_count += sum(folder.sizes)
        if self._progress is not None:
            self._progress(self._file_count, 0, self._byte_count, 0)
        self._todo.extend(found.left)
        self.skipped += found.skipped
        self._outside += found.outside
        self._outside_count += found.outside_count
        self._unmatched &= set(found.unmatched)

    def _load(self, path: str) -> Folder:
        span = self._spans[path]
        block = os.pread(self._file.fileno(), span.size, span.offset)
        return Folder(path, **json.loads(zlib.decompress(block)))

    def _check(self) -> None:
        with naming(self._place):
            self._file.flush()
        self.skipped.sort()  # workers finish in any order
        root = self._root
        refuse_outside(root, self._outside, self._outside_count)
        excludes = bool(self._options.exclude)
        refuse_unmatched(root, sorted(self._unmatched), excludes=excludes)

    def close(self) -> None:
        with contextlib.suppress(OSError):  # its buffered bytes need not reach a full disk
            self._file.close()
