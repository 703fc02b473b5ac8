"""Examples of help texts and manual pages, as command lines."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from manual.prose import Example, read_prose


def example_lines(text: str) -> list[str]:
    return [
        line for block in read_prose(text) if isinstance(block, Example) for line in block.lines
    ]


def ffrfs_arguments(line: str) -> Iterator[list[str]]:
    """Yield the arguments of each ffrfs command in a line of a shell."""
    words = shlex.shlex(line, posix=True, punctuation_chars="|>")
    words.whitespace_split = True
    command: list[str] = []
    for word in [*words, "|"]:
        if word.startswith(("|", ">")):
            if "ffrfs" in command:
                yield command[command.index("ffrfs") + 1 :]
            command = []
        else:
            command.append(word)
