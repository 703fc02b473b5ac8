"""The file that a new pack replaces: an older pack, and nothing else unless the caller says so.

Not here: directories, devices and pipes, which the native writer refuses; sets of packs
(pack_set_writer.py). Concurrency: any thread. The look comes before the packing, so it does not
see what another process puts there meanwhile.
"""

from __future__ import annotations

import os
import stat

from ffrfs._native import Pack
from ffrfs.errors import ChecksumError, FormatError, PackError


def refuse_other_than_pack(path: str) -> None:
    """Raise PackError if `path` is a file that is neither a pack nor empty."""
    try:
        info = os.stat(path)
    except OSError:  # nothing is there, or the writer says what is wrong
        return
    # mktemp makes empty files for those who write them afterwards.
    if not stat.S_ISREG(info.st_mode) or info.st_size == 0 or _is_pack(path):
        return
    raise PackError(
        f"{path}: exists and is not a pack, or is a damaged one; write to another file, or "
        "replace it with --force"
    )


def _is_pack(path: str) -> bool:
    """A plain FFRecord file is none: it may be the only copy of its records."""
    try:
        return Pack(os.fsencode(path)).is_folder
    except (FormatError, ChecksumError):
        return False
    except OSError as error:
        raise PackError(
            f"{path}: exists and cannot be read ({error.strerror}), so it may not be a pack; "
            "write to another file, or replace it with --force"
        ) from None
