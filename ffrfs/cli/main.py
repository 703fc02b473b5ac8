"""The entry point: picks the command, and says in one line what went wrong.

Exit status: 0 well; 1 the data is bad or the operation failed; 2 wrong usage; 130 ended
by Ctrl-C; 141 the reader of our output has gone. `mount` has mount(8)'s own.
"""

from __future__ import annotations

import argparse
import importlib
import resource
import sys
import warnings
from collections.abc import Sequence

import ffrfs
from ffrfs.cli import output
from ffrfs.cli.parser import WRONG_USAGE, Parser, UsageError, add_commands
from ffrfs.cli.remote_options import add_remote_options, apply_remote_options
from ffrfs.errors import FfrfsError, PackWarning, UnverifiedHeaderWarning

GROUPS = {
    "Make packs": ("pack", "convert", "index"),
    "Use packs": ("mount", "umount", "prefetch", "warm", "ls", "cat", "head", "extract"),
    "Look at packs and mounts": ("info", "schema", "verify", "ps", "stats", "top", "log", "check"),
    "Cache packs at URLs": ("cache",),
    "Run as a service": ("install-units",),
}
COMMANDS = tuple(name for names in GROUPS.values() for name in names)
# Which have the options of URLs; a mount has settings for them.
_OF_URLS = {*GROUPS["Make packs"], "ls", "cat", "head", "extract", "info", "schema", "verify"}

_EPILOG = """\
`ffrfs COMMAND --help` explains a command and shows examples.

Examples:
    ffrfs pack ~/imagenet imagenet.ffr
    ffrfs mount imagenet.ffr /mnt/imagenet
    ffrfs umount /mnt/imagenet
"""

_ALIASES = {"unmount": "umount"}

_WRONG_USAGE_OF_MOUNT = 1  # mount(8)'s
_INTERRUPTED = 130  # 128 + SIGINT
_PIPE_CLOSED = 141  # 128 + SIGPIPE


def main(argv: Sequence[str] | None = None) -> int:
    output.open_streams()
    argv = _command_line(sys.argv[1:] if argv is None else argv)
    output.conceal_queries(argv)
    with warnings.catch_warnings():
        for told in (UnverifiedHeaderWarning, PackWarning):
            warnings.simplefilter("always", told)
        warnings.showwarning = lambda message, *_, **__: output.error(str(message))
        _allow_many_files()
        try:
            status = _run(argv)
            output.flush()
        except KeyboardInterrupt:
            output.drop()
            output.error("interrupted")
            return _INTERRUPTED
        except BrokenPipeError:
            output.drop()
            return _PIPE_CLOSED
        except MemoryError:
            output.error("out of memory")
            return 1
        except (FfrfsError, OSError) as error:
            from ffrfs.cli.foreign_file import failure_line  # here, not above: few need it

            output.settle()
            output.error(failure_line(error, argv[0]))
            return 1
    return status


def _run(argv: Sequence[str]) -> int:
    try:
        args = _parse(argv)
    except SystemExit as end:
        output.flush()  # of help
        if end.code == WRONG_USAGE and argv[:1] == ["mount"]:
            return _WRONG_USAGE_OF_MOUNT
        raise
    apply_remote_options(args)
    status: int
    try:
        status = args.func(args)
    except UsageError as error:
        args.usage_error(str(error))
    return status


class _Version(argparse.Action):
    """Reads the version only when asked: that takes as long as a short command."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        output.line(f"ffrfs {ffrfs.__version__}")
        parser.exit()


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    # One command needs one module; all of them are for help and for mistakes.
    parser = make_parser(argv[:1] if argv and argv[0] in COMMANDS else COMMANDS)
    _refuse_unknown_command(parser, argv)
    args, unknown = parser.parse_known_args(argv)
    if unknown:
        Parser(prog=f"ffrfs {argv[0]}").error(f"unknown argument {unknown[0]}")
    return args


def make_parser(commands: Sequence[str] = COMMANDS) -> argparse.ArgumentParser:
    parser = Parser(
        prog="ffrfs",
        description="Pack a directory into one file (a pack); read the pack, or mount it. Every "
        "byte is verified.",
        epilog=_EPILOG,
    )
    parser.add_argument(
        "-V", "--version", action=_Version, nargs=0, help="show program's version number and exit"
    )
    subparsers = add_commands(parser, GROUPS)
    for name in commands:
        command = importlib.import_module(f"ffrfs.cli.{name.replace('-', '_')}")
        its = subparsers.add_parser(
            name, help=command.HELP, description=command.DESCRIPTION, epilog=command.EPILOG
        )
        command.add_arguments(its)
        if name in _OF_URLS:
            add_remote_options(its)
        its.set_defaults(func=command.run, usage_error=its.error)
    return parser


def _command_line(argv: Sequence[str]) -> Sequence[str]:
    """The same in the words of the parser: `help`, and an alias that people expect."""
    match argv:
        case ["help"]:
            return ["--help"]
        case ["help", command, *_]:
            return [_ALIASES.get(command, command), "--help"]
        case [command, *rest]:
            return [_ALIASES.get(command, command), *rest]
    return argv


def _refuse_unknown_command(parser: argparse.ArgumentParser, argv: Sequence[str]) -> None:
    """With the command that may have been meant, where argparse would list all of them."""
    if argv and not argv[0].startswith("-") and argv[0] not in COMMANDS:
        import difflib

        similar = difflib.get_close_matches(argv[0], COMMANDS, n=1)
        hint = f". Did you mean '{similar[0]}'?" if similar else ""
        parser.error(f"unknown command '{argv[0]}'{hint}")


def _allow_many_files() -> None:
    """As many as this process may open at most: a data set may have more shards than 1024.

    That is the usual limit, for the sake of programs that call select(2).
    """
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
