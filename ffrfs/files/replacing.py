"""Decides whether a new file may replace an existing one: docs/usage.md states the rule.

A result (a pack, converted records, a schema) replaces no file, unless the user asks for it. A
file that ffrfs rewrites by itself (metrics, an index, a plan) replaces only a file of its own
kind. Both may replace an empty file: mktemp makes such files for programs that write them
afterwards.

Not here: directories, devices and pipes, which no file replaces (staged_file.py).
Concurrency: no state.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Iterator

from ffrfs.errors import FfrfsError, PackError
from ffrfs.files.kind import FileKind, kind_of_file
from ffrfs.files.staged_file import StagedFile

# This many first bytes tell whether a file is ours.
_BEGIN_SIZE = 256


def refuse_standard_output(path: str) -> None:
    """Raise PackError for "-", which means standard output to users of other programs."""
    if path == "-":
        advice = "give a path (./- if that is its name)"
        raise PackError(f"-: the result cannot go to standard output; {advice}")


def may_replace(path: str, force: bool) -> bool:
    """Return whether a file at `path` may be replaced; False if there is none.

    Raises PackError, which says the kind of the file, if it may not.
    """
    if not path:
        raise PackError("the name of the new file is empty; give a file name")
    refuse_standard_output(path)
    if os.path.isdir(path):
        raise PackError(f"{path}: is a directory; name a file")
    if path.endswith("/"):
        raise PackError(f"{path}: names a directory; name a file")
    if force:
        return True
    try:
        status = os.stat(path)
    except OSError:  # no file, or a link to none; other failures show when the file is made
        return os.path.islink(path)
    if stat.S_ISREG(status.st_mode) and status.st_size:
        raise taken(path, kind_there(path))
    return True


def kind_there(path: str) -> FileKind | None:
    """Return the kind of the file at `path`, or None if it cannot be read."""
    try:
        return kind_of_file(path)
    except OSError:
        return None


def taken(path: str, kind: FileKind | None) -> PackError:
    shown = kind or "cannot be read"
    return PackError(f"{path}: exists ({shown}); write to another file, or replace it with --force")


def not_empty(folder: str, *, can_append: bool = True) -> PackError:
    """Return the error for a directory that is not empty, where a new set should be."""
    more = ", or add to a set with --append" if can_append else ""
    return PackError(f"{folder}: is not empty; write the shards elsewhere{more}")


@contextlib.contextmanager
def keeping(path: str) -> Iterator[None]:
    """Raise PackError for a file that has appeared at `path` since may_replace()."""
    try:
        yield
    except FileExistsError as error:
        if isinstance(error, FfrfsError):
            raise
        raise taken(path, kind_there(path)) from None


@contextlib.contextmanager
def new_file(path: str, *, force: bool = False) -> Iterator[StagedFile]:
    """Yield a staged file that becomes the file `path` if the block ends well.

    Raises PackError if a file is there already, unless `force`; OSError.
    """
    replace = may_replace(path, force)
    with StagedFile(path) as staged:
        yield staged
        with keeping(path):
            # Checked again, because an empty file may have been filled meanwhile.
            staged.publish(replace=replace and may_replace(path, force))


def refuse_foreign(
    path: str,
    is_ours: Callable[[bytes], bool],
    what: str,
    error: type[FfrfsError] = PackError,
) -> None:
    """Raise `error` if the file at `path` is neither empty nor ours by its first bytes.

    `what` is the kind of file that will be written, as in "an index". Raises OSError.
    """
    try:
        status = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return
    if not stat.S_ISREG(status.st_mode) or not status.st_size:
        return
    with open(path, "rb", buffering=0) as file:
        begin = file.read(_BEGIN_SIZE)
    if not is_ours(begin):
        raise error(
            f"{path}: exists ({kind_of_file(path)}), and is not {what} that ffrfs has written; "
            "name another file, or remove it"
        )
