"""The directories of fixed names that ffrfs makes in the directory of a set, and opens again.

Another user may own that directory, or may create files in it, and put anything in their place.

Not here: staging directories, whose names nobody can know before (staged_file.py).
Concurrency: no state.
"""

from __future__ import annotations

import os
import stat

from ffrfs.errors import PackError


def open_own(place: str) -> int:
    """Open the directory `place`, whose files are then reached by the descriptor alone.

    Raises PackError for a symbolic link, which would lead elsewhere, and for a stranger's directory
    where all users may create files (/tmp); FileNotFoundError, OSError.
    """
    try:
        fd = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except NotADirectoryError:  # also a link
        raise refused(place) from None
    above = os.stat(os.path.dirname(place) or ".")
    known = (os.geteuid(), 0, above.st_uid)
    if above.st_mode & stat.S_ISVTX and os.fstat(fd).st_uid not in known:
        os.close(fd)
        raise refused(place)
    return fd


def check_own(place: str) -> None:
    """Raise as open_own() does."""
    os.close(open_own(place))


def refused(place: str) -> PackError:
    return PackError(f"{place}: is not what ffrfs has made there; remove it")
