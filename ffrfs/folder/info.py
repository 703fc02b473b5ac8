"""info: what an FFRecord file holds, in numbers. Reads its header and index only."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from ffrfs._native import Records
from ffrfs.folder.tree import PackTree, PathType

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class FileSizes(NamedTuple):
    """In bytes."""

    min: int
    median: int
    max: int


class PackInfo(NamedTuple):
    is_folder: bool  # False: a plain FFRecord file, each record of which counts as a file
    record_count: int  # with the index
    file_count: int
    folder_count: int  # without the root
    byte_count: int  # of all files together
    header_verified: bool  # False: it carries no checksum
    sizes: FileSizes | None  # None: there are no files


def info(file: PathType) -> PackInfo:
    """Raises FormatError, ChecksumError (of the index) or OSError if `file` is no good."""
    with PackTree(file) as tree:
        volume = tree.volume
        offsets = Records([os.fsencode(tree.file)]).offsets(0)
        if volume.is_folder:
            offsets = offsets[:-1]  # the last record is the index
        return PackInfo(
            is_folder=volume.is_folder,
            record_count=volume.record_count,
            file_count=volume.file_count,
            folder_count=volume.directory_count - 1,
            byte_count=int(offsets[-1] - offsets[0]),
            header_verified=volume.metadata_verified,
            sizes=_sizes(offsets),
        )


def _sizes(offsets: NDArray[np.int64]) -> FileSizes | None:
    sizes = offsets[1:] - offsets[:-1]
    sizes.sort()
    count = len(sizes)
    if count == 0:
        return None
    median = (int(sizes[(count - 1) // 2]) + int(sizes[count // 2])) // 2
    return FileSizes(int(sizes[0]), median, int(sizes[-1]))
