"""The view of a mounted TFDS directory: its splits as directories, or one split's records.

It turns dataset_info.json into the files, and into the native core's option `splits`:
NAME/COUNT/NAME/COUNT…, in byte order of the names, each for the next COUNT files; a single
empty name is the root. Not here: parsing the JSON (tfds.py), the tree (native/example).
Concurrency: functions without state.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

from ffrfs._native import folder_files
from ffrfs.errors import FormatError
from ffrfs.tfrecord.tfds import TfdsSplit, find_split, find_tfds

# The worker gets both as arguments: Linux allows 128 KiB for one, usually 2 MiB for all.
_OPTION_SIZE_MAX = 100_000
_PATHS_SIZE_MAX = 3 << 19


class ShownSplits(NamedTuple):
    files: list[str]
    option: str
    warnings: list[str]  # the omitted files, a line each


def shown_splits(pack: str, allow_missing: bool) -> ShownSplits | None:
    """Return the files for `pack`, a TFDS directory or its split; None if it is neither.

    `allow_missing`: missing files are left out. A directory with packs is not of TFDS, whatever
    else is in it. Raises FormatError if it is damaged or files are missing.
    """
    if os.path.isdir(pack):
        directory = None if _has_packs(pack) else find_tfds(pack)
        if directory is None:
            return None
        splits = sorted(directory.splits.values(), key=lambda split: os.fsencode(split.name))
        return _shown(pack, splits, [split.name for split in splits], allow_missing)
    split = None if os.path.lexists(pack) else find_split(pack)
    return None if split is None else _shown(pack, [split], [""], allow_missing)


def _has_packs(folder: str) -> bool:
    try:
        return bool(folder_files(os.fsencode(folder))[0])
    except OSError:  # opening it as packs reports the reason
        return True


def _shown(
    pack: str, splits: Sequence[TfdsSplit], names: Sequence[str], allow_missing: bool
) -> ShownSplits:
    files: list[str] = []
    words: list[str] = []
    warnings: list[str] = []
    for split, name in zip(splits, names, strict=True):
        missing = split.missing()
        if missing and not allow_missing:
            reason = f"{split.gap(missing)}; restore what is missing, or show the rest: "
            raise FormatError.at(split.path, f"{reason}--allow-missing")
        if missing:
            reason = f"{split.gap(missing)}; the rest is shown without it"
            warnings.append(str(FormatError.at(split.path, reason)))
        gone = set(missing)
        there = [path for path in split.shard_paths if path not in gone]
        files += there
        words += [name, str(len(there))]
    if not files:
        raise FormatError.at(pack, "there are no files of its splits: nothing to show")
    option = "/".join(words)
    sizes = sum(len(os.fsencode(path)) + len("--pack=") + 9 for path in files)
    if len(os.fsencode(option)) > _OPTION_SIZE_MAX or sizes > _PATHS_SIZE_MAX:
        raise FormatError.at(
            pack,
            f"the paths of its {len(files):,} files are too long to be mounted together; "
            "mount each split, or a directory of links to the files",
        )
    return ShownSplits(files, option, warnings)
