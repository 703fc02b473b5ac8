"""Makes manual pages from an argument parser: ffrfs(1), ffrfs-mount(8), ffrfs.conf(5).

All about commands and options comes from the parser, so that the pages cannot say anything
else. sections.py has what the parser does not know.

No state: safe from any thread.
"""

from __future__ import annotations

import argparse
import itertools
import re
from collections.abc import Collection, Iterator, Mapping

from manual import roff, sections
from manual.arguments import Argument, Command, read_parser
from manual.prose import Block, Example, Paragraph, read_prose

# An epilog's paragraph that begins a section, as "exit status: 0 ..." or "mount options (-o):".
_TITLED = re.compile(r"([a-z][a-z ]{3,30})(?: \((.*?)\))?:\s*(.*)")
# Names of values that are numbers in a configuration file, too.
_NUMBERS = {"N", "SECONDS"}


def manual_pages(parser: argparse.ArgumentParser) -> dict[str, str]:
    """Return the pages by file name: `ffrfs.1`, `ffrfs-mount.8` and `ffrfs.conf.5`.

    `parser` is that of the program, with all its commands.
    """
    program = read_parser(parser)
    mount = program.command("mount")
    return {
        "ffrfs.1": roff.page(_program_page(program)),
        "ffrfs-mount.8": roff.page(_mount_page(mount)),
        "ffrfs.conf.5": roff.page(_config_page(mount)),
    }


def _program_page(program: Command) -> Iterator[str]:
    yield from _beginning("ffrfs", 1, sections.PROGRAM_SUMMARY)
    yield roff.section("synopsis")
    yield f"{roff.bold('ffrfs')} {roff.italic('COMMAND')} [{roff.italic('ARGUMENT')}]..."
    yield from roff.paragraph("`ffrfs` [COMMAND] --help", ["COMMAND"])
    yield roff.section("description")
    yield from roff.paragraph(program.description)
    yield from _prose(sections.PROGRAM_DESCRIPTION)
    yield roff.section("options")
    for option in program.options:
        yield from _argument(option, [])
    yield roff.section("commands")
    for command in program.commands:
        yield from _command(command)
    yield from _sections(sections.PROGRAM)


def _command(command: Command) -> Iterator[str]:
    names = _names(command)
    yield roff.subsection(command.name)
    yield _synopsis(command)
    yield from roff.paragraph(command.description or _sentence(command.summary), names)
    if command.word in sections.PAGES_OF_COMMANDS:
        yield from roff.paragraph(f"See {sections.PAGES_OF_COMMANDS[command.word]}.")
        return
    for argument in _told(command):
        yield from _argument(argument, names)
    yield from _prose(command.epilog, names)


def _mount_page(mount: Command) -> Iterator[str]:
    names = _names(mount)
    yield from _beginning("ffrfs-mount", 8, sections.MOUNT_SUMMARY)
    yield roff.section("synopsis")
    yield _synopsis(mount)
    for line in sections.MOUNT_SYNOPSES:
        yield from roff.paragraph(line, names)
    yield roff.section("description")
    yield from roff.paragraph(mount.description, names)
    yield from _prose(sections.MOUNT_DESCRIPTION, names)
    yield roff.section("options")
    for title, arguments in itertools.groupby(_told(mount), lambda argument: argument.group):
        if title:
            yield roff.subsection(title.capitalize())
        for argument in arguments:
            yield from _argument(argument, names)
    for block in read_prose(mount.epilog):
        if block != Paragraph("Examples:") and not isinstance(block, Example):  # in sections.py
            yield from _section_or_block(block, names)
    yield from _sections(sections.MOUNT, names)


def _section_or_block(block: Block, names: Collection[str]) -> Iterator[str]:
    titled = _TITLED.fullmatch(block.text) if isinstance(block, Paragraph) else None
    if titled is None:
        yield from roff.block(block, names)
        return
    title, note, rest = titled.groups()
    yield roff.section(title)
    for text in filter(None, (note, rest)):
        yield from roff.paragraph(_sentence(text), names)


def _config_page(mount: Command) -> Iterator[str]:
    names = _names(mount)
    yield from _beginning("ffrfs.conf", 5, sections.CONFIG_SUMMARY)
    yield roff.section("description")
    yield from _prose(sections.CONFIG_DESCRIPTION, names)
    yield roff.section("keys")
    for key, (value, text) in sections.CONFIG_KEYS.items():
        yield from roff.item(f"{roff.bold(key)} = {roff.value(value)}", text, names)
    for option in mount.options:
        if option.key is not None and option.key not in sections.NOT_IN_A_CONFIG:
            term = f"{roff.bold(option.key)} = {_toml_value(option)}"
            yield from roff.item(term, _sentence(option.help), names)
    yield from _sections(sections.CONFIG, names)


def _toml_value(option: Argument) -> str:
    if not option.value:
        return f"{roff.bold('true')}|{roff.bold('false')}"
    if option.value in _NUMBERS:
        return roff.value(option.value)
    if option.choices:
        return "|".join(roff.bold(f'"{choice}"') for choice in option.choices)
    return roff.escape('"') + roff.value(option.value) + roff.escape('"')


def _beginning(name: str, number: int, summary: str) -> Iterator[str]:
    yield from roff.header(name, number, sections.DATE)
    yield roff.section("name")
    yield rf"{roff.escape(name)} \- {roff.escape(summary)}"


def _sections(texts: Mapping[str, str], names: Collection[str] = ()) -> Iterator[str]:
    for title, text in texts.items():
        yield roff.section(title)
        yield from _prose(text, names)


def _prose(text: str, names: Collection[str] = ()) -> Iterator[str]:
    for block in read_prose(text):
        yield from roff.block(block, names)


def _synopsis(command: Command) -> str:
    words = [roff.bold(command.name)]
    if any(not option.is_help for option in command.options):
        words.append(f"[{roff.italic('OPTION')}]...")
    for place in command.places:
        word = roff.value(place.value)
        word = f"[{word}]" if place.optional else word
        words.append(word + ("..." if place.repeatable else ""))
    return " ".join(words)


def _told(command: Command) -> list[Argument]:
    """Return the arguments to describe: --help is described once, for the program."""
    return [*command.places, *(option for option in command.options if not option.is_help)]


def _argument(argument: Argument, names: Collection[str]) -> list[str]:
    flags = ", ".join(map(roff.bold, argument.flags))
    text = argument.help
    if argument.excludes:
        text += f" (not with {', '.join(argument.excludes)})"
    term = f"{flags} {roff.value(argument.value)}".strip()
    return roff.item(term, _sentence(text), names)


def _names(command: Command) -> set[str]:
    """Return the names of all values."""
    values = " ".join(argument.value for argument in command.arguments)
    return set(re.findall(r"[A-Z]+", values))


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", ":")) else ".")
