"""Parser: the base of all commands' parsers, with the layout of their help and errors.

Options may be anywhere among the arguments, and none is abbreviated: `umount --al` is no `--all`. A
description or an epilog is plain text: paragraphs are filled, but one with indented lines (a list,
examples) is kept as it is. An epilog ends with "Examples:". `--help` fits a screen: it leaves out
rarely needed options, and `--help-all` has everything.

Not here: the commands (one module each), and which there are (main.py).
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any, NoReturn, cast

from ffrfs.cli import output
from ffrfs.printable import printable

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

WRONG_USAGE = 2  # argparse's
_COLUMNS = 80  # if there is no terminal
RARE = "URLs"  # the title of the group of options that only --help-all shows


class UsageError(Exception):
    """Arguments that do not fit together, found by the command itself."""


class Parser(argparse.ArgumentParser):
    """Errors are one line, whatever the arguments contain.

    `common`: the options that `--help` shows, of the epilog with the examples alone; None: all
    but those of the group RARE.
    """

    def __init__(self, *, common: AbstractSet[str] | None = None, **options: object) -> None:
        super().__init__(allow_abbrev=False, **cast("dict[str, Any]", options))
        self.formatter_class = HelpFormatter
        self._common = common
        self.rare_commands: AbstractSet[str] = frozenset()  # which --help leaves out
        self.add_argument("--help-all", action=_HelpAll, nargs=0, help="show all options and exit")

    def parse_known_args(  # type: ignore[override] # has two forms for the namespace
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        words = list(sys.argv[1:] if args is None else args)
        if self._subparsers is None:  # else the options are those of an action
            words = self._options_first(words)
        return super().parse_known_args(words, namespace)

    def _options_first(self, words: Sequence[str]) -> list[str]:
        """Put the options first, because argparse wants the other arguments together.

        The words after the name of a program (argparse.PARSER) are the program's own.
        """
        has_program = any(action.nargs == argparse.PARSER for action in self._actions)
        options: list[str] = []
        others: list[str] = []
        left = iter(words)
        for word in left:
            if word == "--" or (has_program and self._parse_optional(word) is None):
                others += [word, *left]
            elif self._parse_optional(word) is None:
                others.append(word)
            elif not self._takes_next(word):
                options.append(word)
            elif (value := next(left, None)) is not None:
                options += [word, value]
            else:
                others.append(word)  # at the end, so that no other argument is its value
        return [*options, *others]

    def _takes_next(self, word: str) -> bool:
        """Return whether the value of an option is the next argument."""
        known = self._option_string_actions
        if word.startswith("--"):
            return word in known and known[word].nargs is None
        for place, letter in enumerate(word[1:], 2):  # "-lR", "-n5"
            action = known.get(f"-{letter}")
            if action is None or action.nargs is None:
                return action is not None and place == len(word)
        return False

    def format_help(self) -> str:
        shown = [action for action in self._actions if self._is_common(action)]
        if len(shown) == len(self._actions):
            return super().format_help()
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, shown, self._mutually_exclusive_groups)
        formatter.add_text(self.description)
        places = [action for action in shown if not action.option_strings]
        options = [action for action in shown if action.option_strings]
        for title, actions in (("positional arguments", places), ("options", options)):
            if actions:
                formatter.start_section(title)
                formatter.add_arguments(actions)
                formatter.end_section()
        epilog = self.epilog or ""
        if self._common is not None:
            epilog = "Examples:\n" + epilog.rpartition("Examples:\n")[2]
        formatter.add_text(epilog)
        return formatter.format_help()

    def print_help(self, file: object = None) -> None:
        # Not as argparse prints, which hides that standard output is full.
        output.write(output.encoded(self.format_help()))

    def format_help_all(self) -> str:
        self.rare_commands = frozenset()
        return super().format_help()

    def _is_common(self, action: argparse.Action) -> bool:
        flags = action.option_strings
        if self._common is None:
            return all(action not in group._group_actions for group in self._rare_groups())
        return not flags or "--help-all" in flags or not self._common.isdisjoint(flags)

    def _rare_groups(self) -> list[argparse._ArgumentGroup]:
        return [group for group in self._action_groups if group.title == RARE]

    def error(self, message: str) -> NoReturn:
        output.complain(f"{self.prog}: {printable(message)}; see {self.prog} --help")
        self.exit(WRONG_USAGE)


class _HelpAll(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        output.write(output.encoded(cast(Parser, parser).format_help_all()))
        parser.exit()


class HelpFormatter(argparse.HelpFormatter):
    """Paragraphs are filled, lists and examples kept."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=_columns() - 2)  # as argparse has it

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        fill = super()._fill_text
        return "\n\n".join(
            paragraph if "\n " in paragraph else fill(paragraph, width, indent)
            for paragraph in text.strip("\n").split("\n\n")
        )


def _columns() -> int:
    """Return the terminal's width, as shutil.get_terminal_size() does, which argparse calls.

    shutil takes as long to import as argparse itself, and each new argument asks for the width.
    """
    try:
        columns = int(os.environ["COLUMNS"])
    except (KeyError, ValueError):
        columns = 0
    if columns <= 0:
        with contextlib.suppress(AttributeError, ValueError, OSError):
            columns = os.get_terminal_size(sys.__stdout__.fileno()).columns  # type: ignore[union-attr]
    return columns if columns > 0 else _COLUMNS


def add_commands(parser: Parser, groups: Mapping[str, Sequence[str]]) -> Subparsers:
    """Return where the commands' parsers go; help shows them below the titles of `groups`."""

    class Formatter(HelpFormatter):
        def _format_action(self, action: argparse.Action) -> str:
            if not isinstance(action, argparse._SubParsersAction):
                return super()._format_action(action)
            lines = {each.dest: self._format_action(each) for each in action._choices_actions}
            shown = {
                title: [
                    lines[name] for name in names if name in lines.keys() - parser.rare_commands
                ]
                for title, names in groups.items()
            }
            return "\n".join(
                f"{title}:\n" + "".join(lines) for title, lines in shown.items() if lines
            )

    parser.formatter_class = Formatter
    return parser.add_subparsers(
        title=argparse.SUPPRESS, metavar="COMMAND", required=True, parser_class=Parser
    )


class ConfigOption(argparse.Action):
    """--config: stores the file, and lets arguments be left out that it may have."""

    # `may_be_left_out`: arguments, or groups of which one is needed; all have `required`.
    def __init__(self, *, may_be_left_out: Iterable[Any], **rest: Any) -> None:  # noqa: ANN401
        super().__init__(**rest)
        self._may_be_left_out = may_be_left_out

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        value: object,
        option_string: str | None = None,
    ) -> None:
        setattr(namespace, self.dest, value)
        for argument in self._may_be_left_out:
            argument.required = False
