"""Makes foreign text fit for one line: names in a pack may hold line breaks.

Every message, log line and table shows names by these functions. No state: safe from any thread.
"""

from __future__ import annotations

# os.fsdecode() makes such a character of each byte of a name that is not valid UTF-8.
_FIRST_BYTE, _LAST_BYTE, _OFFSET = "\udc80", "\udcff", 0xDC00


def printable(text: str) -> str:
    r"""Return `text` with escapes for unprintable characters: \n, \x1b, \u202e, \xff for a byte."""
    return text if text.isprintable() else "".join(map(_shown, text))


def quoted(path: str) -> str:
    """Return a path in quotation marks, printable, for use within a sentence."""
    return f"'{printable(path)}'"


def _shown(char: str) -> str:
    if char.isprintable():
        return char
    if _FIRST_BYTE <= char <= _LAST_BYTE:
        return f"\\x{ord(char) - _OFFSET:02x}"
    if "\x80" <= char <= "\xff":  # a character: \xNN would be taken for a byte
        return f"\\u{ord(char):04x}"
    return ascii(char)[1:-1]
