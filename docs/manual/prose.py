"""Reads the plain text of parsers (epilogs) and sections.py: paragraphs, items and examples.

A paragraph begins at the margin. An item is indented by two spaces; two or more spaces
separate its term from its text; lines that are indented deeper continue it. Lines indented
by four that continue no item are an example, to be shown as they are. An empty line ends
each of these.

No state: safe from any thread.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_ITEM = re.compile(r"  (\S.*?)(?:  +(\S.*))?")
_EXAMPLE_INDENT = " " * 4


@dataclass(frozen=True)
class Paragraph:
    text: str  # one line


@dataclass(frozen=True)
class Item:
    term: str
    text: str  # one line, may be empty


@dataclass(frozen=True)
class Example:
    lines: tuple[str, ...]


Block = Paragraph | Item | Example


def read_prose(text: str) -> list[Block]:
    blocks: list[Block] = []
    for group in re.split(r"\n(?:[ \t]*\n)+", text.strip("\n")):
        blocks += _blocks(group.split("\n"))
    return blocks


def _blocks(lines: list[str]) -> Iterator[Block]:
    """Yield the blocks of lines that have no empty line among them."""
    rest = [line.rstrip() for line in lines if line.strip()]
    while rest:
        if rest[0].startswith(_EXAMPLE_INDENT):
            taken = _while_indented(rest, _EXAMPLE_INDENT)
            yield Example(tuple(line.removeprefix(_EXAMPLE_INDENT) for line in taken))
        elif item := _ITEM.fullmatch(rest[0]):
            taken = rest[:1] + _while_indented(rest[1:], "   ")
            yield Item(item[1], _joined([item[2] or "", *taken[1:]]))
        else:
            count = next((i for i, line in enumerate(rest) if line.startswith("  ")), len(rest))
            taken = rest[:count]
            yield Paragraph(_joined(taken))
        rest = rest[len(taken) :]


def _while_indented(lines: list[str], indent: str) -> list[str]:
    count = next((i for i, line in enumerate(lines) if not line.startswith(indent)), len(lines))
    return lines[:count]


def _joined(lines: list[str]) -> str:
    return " ".join(" ".join(lines).split())
