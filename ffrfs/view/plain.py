"""Renders without a decoder: text, JSON, tables as text, and hex; a bounded part of a file.

Each function returns the values for item.html: `text`, `table` or `hex`, and the offsets (`at`) of
the parts before and after it. Stateless; any thread.
"""

from __future__ import annotations

import csv
import io
import json
from itertools import islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ffrfs.view.safe_bytes import Content

TEXT_SIZE = 256 << 10
_JSON_SIZE_MAX = 1 << 20
_HEX_SIZE = 512
ROWS_MAX = 100
COLUMNS_MAX = 100
CELL_SIZE = 200  # characters
CUT = f"Rows and columns after the first {ROWS_MAX} are not shown."
_TAB_EXTENSIONS = (".tsv", ".tab")


def hex_dump(content: Content, at: int) -> dict[str, Any]:
    at -= at % 16
    part = content.read(at, _HEX_SIZE)
    rows = [
        [f"{at + line:08x}", part[line : line + 16].hex(" "), _visible(part[line : line + 16])]
        for line in range(0, len(part), 16)
    ]
    return {"hex": rows} | _pages(content, at, _HEX_SIZE)


def _visible(part: bytes) -> str:
    return "".join(chr(byte) if 0x20 <= byte < 0x7F else "·" for byte in part)


def text(content: Content, at: int) -> dict[str, Any]:
    """Show a part, from the first whole character on to the last one that begins in it."""
    part = content.read(at, TEXT_SIZE + 3)
    begin = _continued(part, 0) if at else 0
    end = TEXT_SIZE + _continued(part, TEXT_SIZE)
    return {"text": part[begin:end].decode("utf-8", "replace")} | _pages(content, at, TEXT_SIZE)


def _continued(part: bytes, offset: int) -> int:
    """Return how many bytes there, three at most, belong to the character before them."""
    following = part[offset : offset + 3]
    return next((n for n, byte in enumerate(following) if byte & 0xC0 != 0x80), len(following))


def _pages(content: Content, at: int, size: int) -> dict[str, Any]:
    return {
        "before": max(at - size, 0) if at else None,
        "after": at + size if at + size < content.size else None,
    }


def pretty_json(content: Content) -> dict[str, Any] | None:
    """Return JSON with a line for each value, as far as there is room; None if it is none."""
    if content.size > _JSON_SIZE_MAX:
        return None
    try:
        value = json.loads(content.read(0, content.size))
        pieces, left = [], TEXT_SIZE
        # Indents of a deep structure take far more room than its values.
        for piece in json.JSONEncoder(indent=2, ensure_ascii=False).iterencode(value):
            pieces.append(piece[:left])
            left -= len(piece)
            if left <= 0:
                break
    except (ValueError, RecursionError):
        return None
    shown = "".join(pieces).encode("utf-8", "replace").decode()
    return {"text": shown, "note": "Only the beginning is shown." if left <= 0 else None}


def table(content: Content, extension: str) -> dict[str, Any] | None:
    """Return the first rows of CSV or TSV; None if it is none."""
    part = content.read(0, TEXT_SIZE).decode("utf-8-sig", "replace")
    head = part.split("\n", 1)[0]
    delimiter = "\t" if extension in _TAB_EXTENSIONS else max(",;\t|", key=head.count)
    if content.size > TEXT_SIZE:  # the last line is cut
        part = part[: max(part.rfind("\n"), part.rfind("\r")) + 1]
    lines = io.StringIO(part, newline="")  # str.splitlines() knows further ends of lines
    try:
        rows = list(islice(csv.reader(lines, delimiter=delimiter), ROWS_MAX + 2))
    except csv.Error:
        return None
    if not rows:
        return None
    shown = [[cell[:CELL_SIZE] for cell in row[:COLUMNS_MAX]] for row in rows[: ROWS_MAX + 1]]
    is_cut = len(rows) > len(shown) or any(len(row) > COLUMNS_MAX for row in rows)
    return {
        "table": {"columns": shown[0], "rows": shown[1:]},
        "note": CUT if is_cut else None,
    }
