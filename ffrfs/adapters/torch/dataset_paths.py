"""Finds the file of each index of a data set that shows them.

Not here: data sets that do not show them (learned_paths.py). Concurrency: functions without state.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from torch.utils.data import ConcatDataset, Subset

from ffrfs.mount.client.hint_paths import PathType


def shown_paths(
    dataset: Any,  # noqa: ANN401 - of any library
    of: Callable[[Any], list[PathType] | None] | None = None,
) -> list[PathType] | None:
    """Return the path of each index, or None if the data set shows none.

    `of`: returns the paths of a data set that is not made of others. By default it shows them as
    torchvision's ImageFolder and its kind do (`samples` or `imgs` of (path, target), `paths`,
    `files`), or as the image folders of Hugging Face's `datasets`; so do a Subset and a
    ConcatDataset of such data sets.
    """
    if isinstance(dataset, Subset):
        paths = shown_paths(dataset.dataset, of)
        return None if paths is None else [paths[index] for index in dataset.indices]
    if isinstance(dataset, ConcatDataset):
        parts = [shown_paths(part, of) for part in dataset.datasets]
        known = [part for part in parts if part is not None]
        return [path for part in known for path in part] if len(known) == len(parts) else None
    if of is not None:
        return of(dataset)
    for name in ("samples", "imgs", "paths", "files"):
        found = getattr(dataset, name, None)
        if isinstance(found, Sequence) and not isinstance(found, str):
            firsts = [one[0] if isinstance(one, tuple) and one else one for one in found]
            if all(isinstance(first, str | os.PathLike) for first in firsts):
                return firsts
    return _column_paths(dataset)


def _column_paths(dataset: Any) -> list[PathType] | None:  # noqa: ANN401 - of any library
    """Return the paths in the first column of files that a data set of Hugging Face has."""
    if not hasattr(dataset, "with_format"):
        return None
    features = getattr(dataset, "features", None)
    if not isinstance(features, dict):
        return None
    for name, feature in features.items():
        if not hasattr(feature, "decode"):  # Image, Audio, Video
            continue
        # Looked at where it is: rows are gathered by copies, which would have the bytes, too.
        if any(len(each) - each.null_count for each in _stored(dataset.data.column(name), "bytes")):
            continue
        # The table of Arrow has the stored paths: nothing is decoded, and no file is read.
        column = dataset.with_format("arrow").select_columns(name)[:][name]
        paths = [path for each in _stored(column, "path") for path in each.to_pylist()]
        if None not in paths:
            return paths
    return None


def _stored(column: Any, field: str) -> list[Any]:  # noqa: ANN401 - of Arrow
    """Return the arrays of a field, one of each chunk; nothing is copied."""
    number = column.type.get_field_index(field)
    return [chunk.flatten()[number] for chunk in column.chunks]
