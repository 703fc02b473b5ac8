"""The exceptions of ffrfs: one small tree, each also the built-in kind that fits.

Every message is one line that names the file, the record if there is one, the fault and,
where something can be done, the advice. The native core raises the same classes
(native/python translates). Errors of plain system calls (a missing file, no permission)
stay the built-in OSErrors that Python users expect.

describe() makes the line that a person reads, for any error: also for the errors in a
group, and for those that come without the name of a file.

Not here: errno values for the kernel; the engines choose those.
"""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import threading
import warnings
from collections.abc import Iterator, Sequence
from typing import Self

from ffrfs.printable import printable, shown_name

# As the native core says it (native/io/error.cc). Python's own text names no limit.
_NO_THREAD = (
    "cannot start a thread: all that are allowed are in use; raise the limit (ulimit -u, or "
    "TasksMax= of a service)"
)
# Either keeps the stack of a thread from being made, with the same error.
_MEMORY_LIMITS = (
    (resource.RLIMIT_AS, "ulimit -v, or LimitAS="),
    (resource.RLIMIT_DATA, "ulimit -d, or LimitDATA="),
)


class FfrfsError(Exception):
    """Base of all errors that ffrfs itself detects.

    An error made by at() has the place and the reason as fields, too; its text is "FILE: REASON".
    The place of a URL has no query, which may be a key.
    """

    file: str | None = None
    record: int | None = None  # number in the file; the reason names it, too
    reason: str | None = None

    @classmethod
    def at(cls, file: str, reason: str, record: int | None = None) -> Self:
        file = shown_name(file)
        error = cls(f"{file}: {reason}")
        error.file, error.reason, error.record = file, reason, record
        return error


class FormatError(FfrfsError, ValueError):
    """The file is not of the format that it should be (FFRecord, TFRecord), or is damaged."""


class TruncatedError(FormatError):
    """The file ends within a part that it has begun: it was cut off, or is still being written."""


class UnsafeIndexError(FormatError):
    """The index is a pickle that would run code; it was not run."""


class ChecksumError(FfrfsError, ValueError):
    """The bytes are not those that were written."""

    @classmethod
    def first_of(cls, bad: Sequence[tuple[int, Exception]]) -> Self:
        """Return an error for the first of bad records, with the number of the others."""
        more = f" (and {len(bad) - 1} more bad records)" if len(bad) > 1 else ""
        return cls(describe(bad[0][1]) + more)


class PathNotFoundError(FfrfsError, FileNotFoundError, KeyError):
    """The pack has no such path. KeyError: PackedFolder is a mapping."""


class NotAFolderError(FfrfsError, NotADirectoryError):
    """A directory was expected, and the path is a file."""


class IsAFolderError(FfrfsError, IsADirectoryError, KeyError):
    """A file was expected, and the path is a directory, which has no value in PackedFolder."""


class SeekError(FfrfsError, OSError, ValueError):
    """A position before the beginning of a file. As for a plain file, OSError with EINVAL."""

    @classmethod
    def to(cls, position: int, name: str) -> Self:
        text = f"cannot seek to {position}, before the beginning of the file"
        return cls(errno.EINVAL, text, name)


class PackError(FfrfsError, OSError):
    """The pack could not be written; nothing was left under its name."""


class CompleteError(PackError):
    """The same call has completed the set before. `missing_count`: files that the set lacks."""

    def __init__(self, text: str, missing_count: int = 0) -> None:
        super().__init__(text)
        self.missing_count = missing_count


class TooLargeError(FfrfsError, OSError):
    """A file that is held as a whole to be made has more bytes than may be held."""


class RecordCountError(FfrfsError, ValueError):
    """More or fewer records were written than were announced."""


class UnfinishedError(FfrfsError, OSError):
    """Some tasks of many failed; the others' results are kept. `failures`: a line for each."""

    def __init__(self, text: str, failures: Sequence[str] = ()) -> None:
        super().__init__(text)
        self.failures = list(failures)


class MountError(FfrfsError, OSError):
    """The mount could not be made, or could not be taken away."""


class LostWorkerError(MountError):
    """A mount's worker has died, and no other one can go on with its connection."""


class InstallError(FfrfsError, OSError):
    """Parts of a service, or a compatibility module, could not be installed or removed."""


class MissingPackageError(FfrfsError, ModuleNotFoundError):
    """A Python package is not installed, and an extra of ffrfs would bring it."""

    @classmethod
    def of(cls, need: str, extra: str) -> Self:
        """`need`: "X needs the package Y"."""
        return cls(f"{need}; to install it: pip install 'ffrfs[{extra}]'")

    @classmethod
    @contextlib.contextmanager
    def instead(cls, packages: str, need: str, extra: str) -> Iterator[None]:
        """Raise it if the block cannot import one of `packages`; otherwise as of()."""
        try:
            yield
        except ImportError as error:
            if (error.name or "").partition(".")[0] not in packages.split():
                raise
            raise cls.of(need, extra) from None


class OptionError(FfrfsError, ValueError):
    """An option that ffrfs does not know, or a value that it cannot take."""


class FileSystemHangsError(FfrfsError, TimeoutError):
    """A file system has not answered in time; the thread or process that waits is abandoned."""


class RemoteError(FfrfsError, OSError):
    """An object at a URL could not be read. The message has the URL without its secret part."""


class RemoteNotFoundError(RemoteError, FileNotFoundError):
    """There is no such bucket, or no such object in it."""


class RemoteDeniedError(RemoteError, PermissionError):
    """The server refuses: no credentials, wrong ones, or a missing permission."""


class RemoteTimeoutError(RemoteError, TimeoutError):
    """There was no answer in time, after all retries; a later read may succeed."""


class ChangedAtOriginError(RemoteError):
    """The object was replaced since it was opened: bytes of the two must not be mixed."""


class CacheError(FfrfsError, OSError):
    """The cache directory cannot be used."""


class UnverifiedHeaderWarning(UserWarning):
    """The header of the file has no checksum (an old writer's), so it is not verified."""

    @classmethod
    def of(cls, path: str) -> UnverifiedHeaderWarning:
        return cls(
            f"{shown_name(path)}: its header has no checksum (written by an old writer); "
            "the records are verified, the header is not"
        )


class PackWarning(UserWarning):
    """A part of a pack is ignored, and the rest is read: a stale index, a missing shard."""


_heard = threading.local()  # `told`: the list of hearing()


def warn(warning: UserWarning, stacklevel: int = 1) -> None:
    """Warn as warnings.warn() does, or add the warning to the list of hearing()."""
    told: list[UserWarning] | None = getattr(_heard, "told", None)
    if told is None:
        warnings.warn(warning, stacklevel=stacklevel + 1)
    else:
        told.append(warning)


@contextlib.contextmanager
def hearing() -> Iterator[list[UserWarning]]:
    """Yield a list that gets this thread's warnings; Python's filters hold for all threads."""
    before, _heard.told = getattr(_heard, "told", None), list[UserWarning]()
    try:
        yield _heard.told
    finally:
        _heard.told = before


def describe(error: BaseException) -> str:
    """Return one line: the file, the fault and, where it is known, the advice."""
    error = cause(error)
    if isinstance(error, FileNotFoundError) and error.strerror and _has_lost_place(error):
        text = "the working directory was removed; change to another one (cd)"
    elif isinstance(error, OSError) and error.strerror:
        text = f"{_place(error)}{_advised(error.strerror, error.errno)}"
    elif isinstance(error, FfrfsError):  # its text is one line, but for the names in it
        return printable(str(error)) or type(error).__name__
    elif isinstance(error, OSError):
        text = str(error) or type(error).__name__
    elif isinstance(error, MemoryError):
        text = str(error) or "out of memory"
    elif isinstance(error, RuntimeError) and str(error) == "can't start new thread":
        text = _no_thread()
    else:  # an unforeseen error: its type says more than its text
        text = f"{type(error).__name__}: {error}"
    return " ".join(text.splitlines())


def parse_reason(error: Exception) -> str:
    """Return a parser's message, but without the advice for programmers on too long a number."""
    text = str(error)
    return "a number has too many digits" if "set_int_max_str_digits" in text else text


def text_within(error: Exception, file: str) -> str:
    """Return the fault, for a text that names `file` already."""
    file = shown_name(file)
    if isinstance(error, FfrfsError) and error.file == file and error.reason is not None:
        return error.reason
    if isinstance(error, OSError) and error.filename == file and error.strerror:
        return _advised(error.strerror, error.errno)
    return describe(error)


def from_fields(kind: str, reason: str, file: str, record: int | None, code: int) -> Exception:
    """Return the exception that the native core describes (ErrorFields in native/io/error.h)."""
    if kind == "OSError":  # a number turns it into the fitting subclass
        named = (shown_name(file),) if file or reason.startswith("cannot open") else ()  # "" too
        if code == errno.EMFILE:  # a library does not raise its process's limits by itself
            reason = _advised(reason, code)
        if reason == _NO_THREAD:
            reason = _no_thread()
        return OSError(code, reason, *named) if code else OSError(reason)
    known = globals().get(kind)
    if isinstance(known, type) and issubclass(known, FfrfsError):
        return known.at(file, reason, record) if file else known(reason)
    # For an unknown class, describe() says its name.
    other: type[Exception] = _BUILTINS.get(kind) or type(kind, (Exception,), {})
    return other(reason)


_HOW_TO_OPEN_MORE = "raise that limit (ulimit -n, or LimitNOFILE= of a service)"
_BUILTINS = {one.__name__: one for one in (IndexError, MemoryError, RuntimeError, ValueError)}


def to_texts(error: BaseException) -> list[str]:
    """Return the fields of any error as texts, for another process."""
    error = cause(error)
    if isinstance(error, FfrfsError):
        record = "" if error.record is None else str(error.record)
        return [type(error).__name__, error.reason or str(error), error.file or "", record, ""]
    if not isinstance(error, OSError):
        return [type(error).__name__, str(error), "", "", ""]
    if not error.strerror:
        return ["OSError", str(error) or type(error).__name__, "", "", ""]
    name = error.filename
    file = "" if name is None else str(name) if isinstance(name, int) else os.fsdecode(name)
    return ["OSError", error.strerror, file, "", str(error.errno)]


def from_texts(texts: list[str]) -> Exception:
    """Return the error of to_texts(), or of a mount's worker (DaemonLink::send_failed())."""
    kind, reason, file, record, code = (*texts, *[""] * 5)[:5]
    return from_fields(kind, reason, file, int(record) if record else None, int(code or 0))


def cause(error: BaseException) -> BaseException:
    """Return the first error in a group, at any depth; any other error is its own cause."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def is_shortage(error: BaseException) -> bool:
    """Return whether descriptors, memory or processes are lacking: no file is to blame.

    A shortage may also be the cause of an error of ffrfs.
    """
    shortages = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN)
    numbers = (getattr(each, "errno", None) for each in (error, error.__cause__))
    return any(number in shortages for number in numbers)


def is_damage(error: BaseException) -> bool:
    """Return whether the bytes of a record or file are to blame, or the disk that has them."""
    is_of_disk = isinstance(error, OSError) and error.errno == errno.EIO
    return is_of_disk or isinstance(error, ChecksumError | FormatError)


def is_bad_offset(error: BaseException) -> bool:
    """Return whether a read failed because its offset was invalid, as the reader reports it."""
    if isinstance(error, OSError):
        return error.errno == errno.EINVAL
    return isinstance(error, ValueError)


def _place(error: OSError) -> str:
    if error.filename is not None:
        name = error.filename
        shown = str(name) if isinstance(name, int) else printable(os.fsdecode(name))
        return f"{shown}: " if shown else "'': "
    # The error has no file name: a descriptor was made for a pipe, a socket or a process.
    is_of_descriptors = error.errno in (errno.EMFILE, errno.ENFILE)
    return "a pipe, a socket or a process: " if is_of_descriptors else ""


def _has_lost_place(error: FileNotFoundError) -> bool:
    """Return whether the error is that of getcwd(), which has no file name."""
    if error.filename is not None:
        return False
    try:
        os.getcwd()
    except FileNotFoundError:
        return True
    return False


def _advised(reason: str, number: int | None) -> str:
    """Return the reason with the advice; another process may have added its own (from_fields)."""
    return reason if _HOW_TO_OPEN_MORE in reason else reason + _advice(number)


def _advice(number: int | None) -> str:
    if number == errno.EMFILE:
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return f"; a process may have {limit:,} here: {_HOW_TO_OPEN_MORE}"
    if number == errno.ENFILE:
        return "; all processes together have as many as the system allows: raise fs.file-max"
    if number != errno.EFBIG:
        return ""  # returns without a system call, which a container may deny
    limit, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    if limit != resource.RLIM_INFINITY:
        return (
            f"; a process may write files of at most {limit:,} bytes here: raise that limit "
            "(ulimit -f, or LimitFSIZE= of a service)"
        )
    return ""


def _no_thread() -> str:
    for kind, how in _MEMORY_LIMITS:
        limit, _ = resource.getrlimit(kind)
        if limit != resource.RLIM_INFINITY:
            return (
                f"cannot start a thread: a process may have {limit:,} bytes of memory here; raise "
                f"that limit ({how} of a service), or that of threads (ulimit -u, or TasksMax=)"
            )
    return _NO_THREAD


@contextlib.contextmanager
def naming(path: str) -> Iterator[None]:
    """Raise OSErrors of the block with this name: its calls know only a descriptor."""
    try:
        yield
    except FfrfsError:  # its text is complete already
        raise
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from None
