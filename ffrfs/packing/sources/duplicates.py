"""Files that are equal byte for byte become one record.

Only files of a size that another file has, too, are read; files are equal if their SHA-256 is.
The first one in the order of the records keeps its record.

Concurrency: one thread calls; the contents read in threads of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat
from typing import TYPE_CHECKING

import numpy as np

from ffrfs.packing.sources.contents import Contents

if TYPE_CHECKING:
    from numpy.typing import NDArray


def share_duplicates(contents: Contents, jobs: int) -> None:
    """Let equal files of the list share a record; the list has to be numbered again.

    Replaces Contents.share(): names of one file are equal, too.

    Raises PackError for a file that is not as it was listed, OSError.
    """
    files, sizes = _with_equals(contents)
    originals: dict[bytes, int] = {}  # by digest, for one size
    size = -1
    for file, size_now, digest in zip(
        files, sizes, _digests(contents, files, sizes, jobs), strict=True
    ):
        if size_now != size:
            originals.clear()
            size = size_now
        original = originals.setdefault(digest, file)
        if original != file:
            contents.entries.share(file, original)


def _with_equals(contents: Contents) -> tuple[list[int], list[int]]:
    """Return the files whose size occurs twice, grouped by size, and the sizes."""
    listed = contents.entries
    contents.number()
    files = np.array(listed.files(0, listed.record_count), np.uint32)
    sizes: NDArray[np.uint64] = listed.sizes()[files]
    order = np.argsort(sizes, kind="stable")
    files, sizes = files[order], sizes[order]
    as_before = sizes[1:] == sizes[:-1]
    has_equal = np.zeros(len(files), bool)
    has_equal[1:] |= as_before
    has_equal[:-1] |= as_before
    return files[has_equal].tolist(), sizes[has_equal].tolist()


def _digests(contents: Contents, files: list[int], sizes: list[int], jobs: int) -> Iterator[bytes]:
    """Yield as Contents.digests() does; empty files, which come first, are not read."""
    empty_count = sizes.count(0)
    yield from repeat(b"", empty_count)
    yield from contents.digests(files[empty_count:], jobs)
