"""The candidates for each value of an option or positional argument, for every shell.

The name that a value has in help decides: a PACK is a pack, a FILE any file.

No state: safe from any thread.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator
from dataclasses import dataclass

from manual.arguments import Argument, Command
from manual.prose import Item, Paragraph, read_prose
from manual.sections import NOT_IN_A_CONFIG


class Kind(enum.Enum):
    NOTHING = "nothing"  # a number, a pattern: only the user knows it
    FILE = "file"
    FOLDER = "folder"
    PACK = "pack"  # *.ffr, TFRecord files, and directories
    MOUNT = "mount"  # where ffrfs is mounted
    MOUNT_OPTIONS = "mount options"  # words, with commas between them


# A name that is missing here has no completion, and a test fails.
KINDS = {
    "ACTION": Kind.NOTHING,  # one of a few words, which are its choices
    "COUNT": Kind.NOTHING,
    "DEST": Kind.FOLDER,
    "DIR": Kind.FOLDER,
    "DST": Kind.FILE,
    "FD": Kind.NOTHING,
    "FILE": Kind.FILE,
    "FORMAT": Kind.NOTHING,  # its choices
    "I": Kind.NOTHING,
    "ENGINE": Kind.NOTHING,
    "MOUNTPOINT": Kind.MOUNT,
    "N": Kind.NOTHING,
    "NAME": Kind.NOTHING,
    "OBJECT": Kind.NOTHING,  # an object in a cache
    "OPTIONS": Kind.MOUNT_OPTIONS,
    "PACK": Kind.PACK,
    "PATH": Kind.NOTHING,  # a path in a pack
    "PATTERN": Kind.NOTHING,
    "PLAN": Kind.FILE,
    "PROGRAM": Kind.FILE,
    "RECORDS": Kind.NOTHING,
    "REGION": Kind.NOTHING,
    "SECONDS": Kind.NOTHING,
    "SIZE": Kind.NOTHING,
    "SRC": Kind.FILE,
    "URL": Kind.NOTHING,
}
# Commands in which a name means something else.
_KINDS_OF_COMMANDS = {
    ("mount", "MOUNTPOINT"): Kind.FOLDER,
    ("prefetch", "PATH"): Kind.FILE,
}
_BRIEF_LENGTH = 70


@dataclass(frozen=True)
class Candidates:
    """All candidates for one value."""

    name: str  # the name of the value, for people
    words: tuple[str, ...]
    kind: Kind


@dataclass(frozen=True)
class Place:
    candidates: Candidates
    optional: bool
    repeatable: bool  # then it is the last place


@dataclass(frozen=True)
class MountOption:
    """A word of -o."""

    name: str
    value: str  # the name of its value; empty: it has none
    help: str


def value_of(command: Command, argument: Argument) -> Candidates:
    if argument.choices:
        return Candidates(argument.value, argument.choices, Kind.NOTHING)
    words = tuple(word for word in argument.value.split("|") if word.islower())
    name = re.findall(r"[A-Z]+", argument.value)[0]
    kind = _KINDS_OF_COMMANDS.get((command.word, name), KINDS.get(name, Kind.NOTHING))
    return Candidates(argument.value, words, kind)


def places_of(command: Command) -> list[Place]:
    """Return the places in order. A repeatable one is the last: it takes all further words."""
    places = []
    for argument in command.places:
        candidates = value_of(command, argument)
        places.append(Place(candidates, argument.optional, argument.repeatable))
        if argument.repeatable:
            break
    return places


def mount_options(mount: Command) -> list[MountOption]:
    """Return the words of -o: those of the epilog, and the settings, which are also options."""
    found = {option.name: option for option in _told_mount_options(mount)}
    for argument in mount.options:
        name = argument.key
        if name == "config" or (name is not None and name not in NOT_IN_A_CONFIG):
            found[name] = MountOption(name, argument.value, argument.help)
    return list(found.values())


def _told_mount_options(mount: Command) -> Iterator[MountOption]:
    is_told = False
    for block in read_prose(mount.epilog):
        if isinstance(block, Paragraph):
            is_told = block.text.startswith("mount options")
        elif isinstance(block, Item) and is_told:
            for word in re.findall(r"[a-z_]+(?:=[A-Z]+)?", block.term):
                name, _, value = word.partition("=")
                yield MountOption(name, value, block.text)


def brief(text: str) -> str:
    """Return as much of a help text as has room behind a candidate."""
    first = re.split(r" \(|; |\. |(?<=.{20}): ", text)[0]
    if len(first) <= _BRIEF_LENGTH:
        return first
    return first[:_BRIEF_LENGTH].rpartition(", ")[0] or first
