"""Makes names fit for messages: one line each, and URLs without what may be a secret.

Names in a pack may hold line breaks. Every message, log line and table shows names by these
functions. No state: safe from any thread.
"""

from __future__ import annotations

import re

# os.fsdecode() makes such a character of each byte of a name that is not valid UTF-8.
_FIRST_BYTE, _LAST_BYTE, _OFFSET = "\udc80", "\udcff", 0xDC00


_CLOUD = re.compile(r"((?:s3|gs|az)://)[^/]*@", re.IGNORECASE | re.ASCII)
_WEB = re.compile(r"https?://[^?#]*", re.IGNORECASE | re.ASCII)


def printable(text: str) -> str:
    r"""Return `text` with escapes for unprintable characters: \n, \x1b, \u202e, \xff for a byte."""
    return text if text.isprintable() else "".join(map(_shown, text))


def quoted(path: str) -> str:
    """Return a path in quotation marks, printable, for use within a sentence."""
    return f"'{printable(path)}'"


def shown_name(name: str) -> str:
    """Return the name of a file, or of several as one text, or a URL without store and query.

    The part after the `?` may be a key for the object. Errors and output show these names; code
    that opens the file again needs the whole name.
    """
    return web[0] if (web := _WEB.match(name)) else _CLOUD.sub(r"\1", name, count=1)


def _shown(char: str) -> str:
    if char.isprintable():
        return char
    if _FIRST_BYTE <= char <= _LAST_BYTE:
        return f"\\x{ord(char) - _OFFSET:02x}"
    if "\x80" <= char <= "\xff":  # a character: \xNN would be taken for a byte
        return f"\\u{ord(char):04x}"
    return ascii(char)[1:-1]
