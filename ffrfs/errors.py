"""The exceptions of ffrfs: one small tree, each also the built-in kind that fits.

Every message is one line that names the file, the record where there is one, what is
wrong and, where something can be done, what. The native core raises the same classes
(native/python translates). Errors of plain system calls (a missing file, no permission)
stay the built-in OSErrors that Python users expect.

Not here: errno values for the kernel; the engines choose those.
"""

from __future__ import annotations


class FfrfsError(Exception):
    """Base of everything that ffrfs itself finds wrong."""


class FormatError(FfrfsError, ValueError):
    """The file is not of the format that it should be (FFRecord, TFRecord), or is damaged."""


class TruncatedError(FormatError):
    """The file ends before what it begins: it was cut off, or is still being written."""


class UnsafeIndexError(FormatError):
    """The index is a pickle that would run code; it was not run."""


class ChecksumError(FfrfsError, ValueError):
    """The bytes are not those that were written."""


class PathNotFoundError(FfrfsError, FileNotFoundError):
    """The packed folder has no such path."""


class NotAFolderError(FfrfsError, NotADirectoryError):
    """A folder was asked for and the path is a file."""


class IsAFolderError(FfrfsError, IsADirectoryError):
    """A file was asked for and the path is a folder."""


class PackError(FfrfsError, OSError):
    """The pack could not be written; nothing was left under its name."""


class RecordCountError(FfrfsError, ValueError):
    """More or fewer records were written than were announced."""


class MountError(FfrfsError, OSError):
    """The mount could not be made, or could not be taken away."""


class InstallError(FfrfsError, OSError):
    """What makes a service of ffrfs could not be installed, or not be taken away."""


class OptionError(FfrfsError, ValueError):
    """A mount option that ffrfs does not know, or a value that it cannot take."""


class UnverifiedHeaderWarning(UserWarning):
    """The header of the file carries no checksum: an old writer's, taken on trust."""

    @classmethod
    def of(cls, path: str) -> UnverifiedHeaderWarning:
        return cls(
            f"{path}: its header carries no checksum (written by an old writer); "
            "the records are verified, the header is taken on trust"
        )


class PackWarning(UserWarning):
    """Something of a pack is left aside, and the rest is read: a stale index, a missing shard."""
