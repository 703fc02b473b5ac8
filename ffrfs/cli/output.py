"""Lines for people and programs: names as they are, or harmless on a terminal."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, TextIO

from ffrfs.errors import naming
from ffrfs.printable import printable
from ffrfs.remote.url import is_url

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from ffrfs.folder.progress import ProgressBar


# Parts of the command line that no message may show.
_secrets: list[str] = []


def conceal_queries(words: Iterable[str]) -> None:
    """Print no query of the URLs among these words from now on: a signed URL has its key there."""
    urls = filter(is_url, chain.from_iterable((word, word.partition("=")[2]) for word in words))
    queries = (url.partition("#")[0].partition("?")[2] for url in urls)
    _secrets[:] = sorted({f"?{query}" for query in queries if query}, key=len, reverse=True)


def _without_secrets(text: str) -> str:
    for secret in _secrets:
        text = text.replace(secret, "")
    return text


def line(text: str, end: bytes = b"\n") -> None:
    """Print a line to stdout; control characters of names do not reach a terminal."""
    text = _without_secrets(text)
    if is_escaped():
        text = printable(text)
    write(encoded(text) + end)


def encoded(text: str) -> bytes:
    """Return names as they are; characters that the locale does not have are spelled."""
    try:
        return os.fsencode(text)
    except UnicodeEncodeError:
        return b"".join(map(_spelled, text))


def _spelled(char: str) -> bytes:
    try:
        return os.fsencode(char)
    except UnicodeEncodeError:
        code = ord(char)
        return (f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}").encode("ascii")


def write(data: Buffer) -> None:
    """Print bytes to stdout as they are."""
    with naming("standard output"):
        sys.stdout.buffer.write(data)


def is_escaped() -> bool:
    """Whether line() escapes unprintable characters, as it does for a terminal."""
    return sys.stdout.isatty()


def titled(lines: Mapping[str, str]) -> None:
    """Print a line each, "title   text", the texts below each other."""
    for title, text in lines.items():
        line(f"{title:<16} {text}")


def count(number: int, noun: str, plural: str | None = None) -> str:
    """Return "1 file" or "2,000 files"."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def size(size_bytes: float) -> str:
    """Return "812 bytes" or "1.2 GiB"."""
    if size_bytes < 1024:
        return count(int(size_bytes), "byte")
    units = iter(("KiB", "MiB", "GiB", "TiB", "PiB", "EiB"))
    while size_bytes >= 1024:
        size_bytes /= 1024
        unit = next(units)
    return f"{size_bytes:.1f} {unit}"


def duration(time_s: float) -> str:
    """Return "3 d 04:05:06", without the days if there are none."""
    minutes, seconds = divmod(int(time_s), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"{f'{days} d ' if days else ''}{hours:02}:{minutes:02}:{seconds:02}"


def table(rows: Sequence[tuple[str, ...]], right: Container[str] = ()) -> Iterator[str]:
    """Yield the lines of a table. The first of `rows` has the titles; `right`: those of numbers.

    Cells are printable: a row is one line, whatever names are in it.
    """
    rows = [tuple(map(printable, row)) for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = zip(rows[0], row, widths, strict=True)
        yield "  ".join(
            cell.rjust(width) if title in right else cell.ljust(width)
            for title, cell, width in cells
        ).rstrip()


def lines(texts: Iterable[str]) -> None:
    """Print each as a line."""
    for text in texts:
        line(text)


def json_objects(values: Sequence[Mapping[str, object]]) -> None:
    """Print one object, or an array of several."""
    if len(values) == 1:
        json_object(values[0])
    else:
        json_array(values)


def json_object(value: Mapping[str, object]) -> None:
    line(json.dumps(value, indent=2))


def json_array(values: Iterable[Mapping[str, object]]) -> None:
    """Print a JSON array, an object a line, without ever holding all of it."""
    before = "["
    try:
        for value in values:
            line(before + json.dumps(value))
            before = ","
    except Exception:
        if before == ",":  # whole JSON, though not all of it; the status tells of the failure
            line("]")
        raise
    line("]" if before == "," else "[]")


def error(text: str) -> None:
    """Print "ffrfs: text" to stderr, in one line whatever is in it."""
    complain(f"ffrfs: {printable(text)}")


def complain(text: str) -> None:
    """Print a line to stderr. A stderr that cannot be written to changes nothing else."""
    try:
        print(_without_secrets(text), file=sys.stderr)
    except OSError:
        drop(sys.stderr)  # else Python would fail at the end, when it writes the line again


def open_streams() -> None:
    """Open /dev/null for each stream that the caller has closed.

    Otherwise a file that is opened later gets its number, and is taken for the stream.
    """
    for fd in range(3):
        try:
            os.fstat(fd)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest number: fd
    if sys.stdin is None:
        sys.stdin = open(0, closefd=False)  # noqa: SIM115 - to the end
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - to the end


def flush() -> None:
    """Write out what stdout still holds."""
    with naming("standard output"):
        sys.stdout.flush()


def settle() -> None:
    """Do as flush(), but drop bytes that cannot be written."""
    try:
        flush()
    except OSError:
        drop()


def drop(stream: TextIO | None = None) -> None:
    """Send the rest of stdout, or of `stream`, to /dev/null: nobody reads it."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, (stream or sys.stdout).fileno())
    os.close(nowhere)


def show_progress() -> bool:
    return sys.stderr.isatty()


def progress_bar(file: str, unit: str = "files", *, quiet: bool = False) -> ProgressBar:
    """Return a bar that is shown on a terminal, unless the user wants none."""
    from ffrfs.folder.progress import ProgressBar

    return ProgressBar(file, show_progress() and not quiet, unit)
