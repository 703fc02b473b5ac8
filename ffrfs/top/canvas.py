"""The drawing surface: its size, its characters, sparklines, meters, and foreign text.

It uses ASCII if the terminal's encoding is not UTF-8.

No state; any thread.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len

from ffrfs.printable import printable

_BARS, _ASCII_BARS = "▁▂▃▄▅▆▇█", "_.:-=+*#"


class Canvas:
    """A terminal's size, and the characters of its encoding."""

    def __init__(self, encoding: str, width: int, height: int) -> None:
        self.width, self.height = width, height
        self._encoding = encoding
        is_utf8 = encoding.lower().replace("-", "").startswith("utf8")
        self.bars = _BARS if is_utf8 else _ASCII_BARS
        self.full, self.empty = ("█", "░") if is_utf8 else ("#", ".")
        self.cut, self.mark = ("…", "▶") if is_utf8 else ("~", ">")
        self.arrows = "↑↓" if is_utf8 else "up/down"

    def text(self, text: str) -> str:
        """Return foreign text without control characters, and characters that it cannot encode."""
        shown = printable(text).encode(self._encoding, "backslashreplace")
        return shown.decode(self._encoding)

    def end_of(self, text: str, width: int) -> str:
        """Return the text, but only its end if it is too long: the ends of paths tell more."""
        shown = self.text(text)
        if cell_len(shown) <= width:
            return shown
        shown = shown[-max(width, 1) :]  # a mount of many packs has a line of a megabyte
        while shown and cell_len(shown) >= width:
            shown = shown[1:]
        return self.cut + shown if width > 0 else ""

    def sparkline(self, values: Sequence[float | None], most: float) -> str:
        """Return a character for each value: a blank for None, the lowest bar for 0 alone.

        `most` is the value of the highest bar.
        """
        steps = len(self.bars) - 1

        def bar(value: float | None) -> str:
            if value is None:
                return " "
            if value <= 0 or most <= 0:
                return self.bars[0]
            return self.bars[max(round(value / most * steps), 1)]

        return "".join(map(bar, values))

    def meter(self, share: float, width: int) -> tuple[str, str]:
        """Return the full part and the empty part of a meter, together `width` characters."""
        filled = round(min(max(share, 0), 1) * width)
        return self.full * filled, self.empty * (width - filled)
