"""Text of others, made fit for one line: names in a pack may hold line breaks."""

from __future__ import annotations


def printable(text: str) -> str:
    """`text` with whatever is not printable spelt as Python does: \\n, \\x1b, \\udcff."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)
