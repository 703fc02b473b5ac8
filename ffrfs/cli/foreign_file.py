"""Makes the text of an error, which names a file's kind if the command does not take such a file.

Not here: how a file's kind is known (ffrfs.files.kind). Concurrency: functions without state.
"""

from __future__ import annotations

import contextlib
import os
import re
import zlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ffrfs.errors import ChecksumError, FormatError, PackError, cause, describe
from ffrfs.remote.url import is_url, parse_url

if TYPE_CHECKING:
    from ffrfs.files.kind import Read

_TFRECORD = "a TFRecord file"
_EITHER = "a pack or a TFRecord file"
_SOURCE = "a directory, an archive or a pack"
# The kinds of file that the commands take.
_WANTED = {
    **dict.fromkeys(("head", "schema"), _TFRECORD),
    **dict.fromkeys(("cat", "extract", "info", "ls", "mount", "verify"), _EITHER),
    **dict.fromkeys(("convert", "diff", "index", "view"), _EITHER),
    "pack": _SOURCE,
}
# The kinds that a damaged file of the wanted kind may look like.
_TAKEN = {
    _TFRECORD: (_TFRECORD,),
    _EITHER: (_TFRECORD, "a pack", "an FFRecord file"),
    _SOURCE: ("a tar archive", "a zip archive", "a pack", "a gzip file"),
}
_JSON_LINES, _CSV = "a file of JSON lines", "a CSV file"
_ADVICE = {
    "a tar archive": "ffrfs pack {file} OUT.ffr makes a pack of it",
    "a zip archive": "ffrfs pack {file} OUT.ffr makes a pack of it",
    "a Parquet file": "ffrfs convert {file} OUT.tfrecord makes TFRecord of it",
    **dict.fromkeys((_JSON_LINES, _CSV), "ffrfs convert {file} OUT.tfrecord makes TFRecord of it"),
    _TFRECORD: "ffrfs convert --to pack {file} OUT.ffr makes a pack of it",
    "a pack": "ffrfs ls {file} lists its files",
    "an FFRecord file": "ffrfs convert {file} OUT.tfrecord makes TFRecord of it",
}
# The kinds that convert takes, too.
_CONVERTED = ("a tar archive", "a Parquet file", _JSON_LINES, _CSV)
# For these kinds the error itself says more: a pack has an index, a data set descriptions as text.
_OTHERS = ("a file of unknown kind", "an empty file", "an index of a pack")
_TEXT = "a text file"
_SAY_TEXT = ("convert", "head", "pack")  # text is not a damaged file for these
_BY_NAME = "convert takes text only by its name: .jsonl, .csv or .csv.gz"
_NO_URL = re.compile(r"(?:^|/)(?!(?:s3|gs|az|https?|file)://)[a-z][a-z0-9]+:/")


def failure_line(error: BaseException, command: str, words: Sequence[str] = ()) -> str:
    """Return the line of describe(), or "FILE: is KIND, not …; COMMAND makes … of it".

    `words`: the arguments, among which `pack` has its sources.
    """
    error = cause(error)
    if isinstance(error, FileNotFoundError) and _NO_URL.search(describe(error)):
        return f"{describe(error)}; a URL begins with s3://, gs://, az://, https:// or http://"
    if not isinstance(error, FormatError | ChecksumError | PackError) or error.record:
        return describe(error)
    wanted, file = _WANTED.get(command), error.file
    is_inner = command == "pack" and file not in words  # it may be of any kind
    if wanted is None or file is None or is_inner or not (is_url(file) or os.path.isfile(file)):
        return describe(error)
    try:
        name, whole_name = _kind(file)
    except (OSError, ValueError):  # a URL is shown without its query, and may be none then
        return describe(error)
    says_more = name in (*_TAKEN[wanted], *_OTHERS)
    says_more |= name == _TEXT and command not in _SAY_TEXT
    if says_more or (command == "convert" and whole_name in _CONVERTED):
        return describe(error)
    advice = _BY_NAME if command == "convert" and name == _TEXT else _ADVICE.get(name)
    text = f"{file}: is {whole_name}, not {wanted}"
    return f"{text}; {advice.format(file=file)}" if advice else text


def _kind(file: str) -> tuple[str, str]:
    """Return the name of the file's kind (of gzip, its content's), and the name for people."""
    from ffrfs.files.kind import TEXT_SIZE, kind_of_bytes

    with _opened(file) as (read, size):
        found = kind_of_bytes(read, size)
        if found.name == _TEXT and file.endswith((".jsonl", ".csv")):
            return (_CSV if file.endswith(".csv") else _JSON_LINES,) * 2
        if found.name != "a gzip file":
            return found.name, str(found)
        begin = read(0, min(TEXT_SIZE, size))
    try:
        inner = zlib.decompressobj(wbits=31).decompress(begin, TEXT_SIZE)
    except zlib.error:
        inner = b""
    of = kind_of_bytes(lambda offset, size: inner[offset : offset + size], len(inner)).name
    if of == _TEXT and file.endswith(".csv.gz"):
        return _CSV, _CSV
    if of in ("a tar archive", _TEXT):
        return of, f"{of} (gzip)"
    # Any other may be TFRecord, whose own error says more.
    return "a file of unknown kind", ""


@contextlib.contextmanager
def _opened(path: str) -> Iterator[tuple[Read, int]]:
    """Yield a function that reads the file, and the file's size. Raises OSError."""
    if is_url(path):
        yield _object(path)
        return
    with open(path, "rb", buffering=0) as file:
        fd = file.fileno()
        yield lambda offset, size: os.pread(fd, size, offset), os.fstat(fd).st_size


def _object(url: str) -> tuple[Read, int]:
    from ffrfs.remote.bucket import bytes_of, pin_of
    from ffrfs.remote.session import session
    from ffrfs.remote.settings import RemoteSettings

    settings = session.settings or RemoteSettings.from_environment()
    pin = pin_of(parse_url(url), settings)
    if pin is None:
        raise FileNotFoundError(url)
    return lambda offset, size: bytes_of(pin, offset, size, settings), pin.size
