"""The arguments of a parser, as plain values: only this file reads argparse's internals.

The public interface of a parser gives only the text of its help. Its arguments are in the private
`_actions`; the fields of an action are public. Manual pages and completions read these values.

pages.py and completions.py lay them out. No state: safe from any thread.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Argument:
    """An option or a positional argument."""

    flags: tuple[str, ...]  # as in -q, --quiet; none: a positional argument
    value: str  # the name of its value in help, as N or path|size; empty: it takes none
    help: str  # without a full stop, usually; may be empty
    choices: tuple[str, ...]  # of its value; none: any
    optional: bool  # a positional argument that may be left out
    repeatable: bool
    excludes: tuple[str, ...]  # flags of options that cannot be used with this one
    group: str  # the title of its group in help; empty: it has none of its own

    @property
    def is_help(self) -> bool:
        return "--help" in self.flags or "--help-all" in self.flags

    @property
    def long_flag(self) -> str | None:
        return next((flag for flag in self.flags if flag.startswith("--")), None)

    @property
    def key(self) -> str | None:
        """The long flag as a key of a configuration file: "cache_mb"."""
        return self.long_flag and self.long_flag.removeprefix("--").replace("-", "_")


@dataclass(frozen=True)
class Command:
    """A parser: the program itself, or one of its commands."""

    name: str  # as it is called: "ffrfs mount"
    summary: str  # a few words; empty for the program itself
    description: str
    epilog: str
    arguments: tuple[Argument, ...]
    commands: tuple[Command, ...]  # the actions of a command follow it

    @property
    def word(self) -> str:
        """Return the words after the program's name that call it: "mount", "cluster plan"."""
        return self.name.partition(" ")[2]

    @property
    def options(self) -> tuple[Argument, ...]:
        return tuple(argument for argument in self.arguments if argument.flags)

    @property
    def places(self) -> tuple[Argument, ...]:
        return tuple(argument for argument in self.arguments if not argument.flags)

    @property
    def with_actions(self) -> list[str]:
        """Return the commands that have actions: "cluster"."""
        return sorted({word.partition(" ")[0] for word in self.words if " " in word})

    @property
    def words(self) -> list[str]:
        return [command.word for command in self.commands]

    def command(self, word: str) -> Command:
        return next(command for command in self.commands if command.word == word)


def read_parser(parser: argparse.ArgumentParser) -> Command:
    """Return all that `parser` takes, with its commands."""
    return next(_commands(parser, ""))


def _commands(parser: argparse.ArgumentParser, summary: str) -> Iterator[Command]:
    """Yield the command of `parser`, and then, unless it is the program, its actions."""
    shown = [action for action in parser._actions if action.help != argparse.SUPPRESS]
    below = [
        command
        for action in shown
        if isinstance(action, argparse._SubParsersAction)
        for choice in action._choices_actions
        for command in _commands(action.choices[choice.dest], choice.help or "")
    ]
    is_program = " " not in parser.prog
    yield Command(
        name=parser.prog,
        summary=summary,
        description=parser.description or "",
        epilog=parser.epilog or "",
        arguments=tuple(
            _argument(parser, action)
            for action in shown
            if not (is_program and isinstance(action, argparse._SubParsersAction))
        ),
        commands=tuple(below) if is_program else (),
    )
    yield from () if is_program else below


def _argument(parser: argparse.ArgumentParser, action: argparse.Action) -> Argument:
    takes_value = action.nargs != 0
    is_many = isinstance(action, argparse._AppendAction | argparse._CountAction)
    is_program = action.nargs == argparse.PARSER and not action.choices
    return Argument(
        flags=tuple(action.option_strings),
        value=_value(action) if takes_value else "",
        help=_help(parser, action),
        choices=tuple(map(str, action.choices or ())),
        optional=not action.option_strings and action.nargs in ("?", "*"),
        repeatable=is_many or action.nargs in ("+", "*") or is_program,
        excludes=tuple(
            flag
            for group in parser._mutually_exclusive_groups
            if action in group._group_actions
            for other in group._group_actions
            if other is not action
            for flag in other.option_strings
        ),
        group=_group(parser, action),
    )


def _group(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    titles = (
        group.title
        for group in parser._action_groups
        if action in group._group_actions and group not in (parser._positionals, parser._optionals)
    )
    return next(titles, None) or ""


def _value(action: argparse.Action) -> str:
    if action.choices is not None and action.metavar is None:
        return "|".join(map(str, action.choices))
    metavar = action.metavar or action.dest.upper()
    return metavar if isinstance(metavar, str) else " ".join(metavar)


def _help(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    """Return the help text in which argparse's fields, as %(default)s, are filled in."""
    fields = {**vars(action), "prog": parser.prog}
    return " ".join((action.help % fields).split()) if action.help else ""
