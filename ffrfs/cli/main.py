"""The entry point: picks the command, and prints an error in one line.

Exit status: 0 success; 1 the data is bad or the operation failed; 2 wrong usage; 130 ended by
Ctrl-C; 141 the reader of our output has ended. `mount` has the statuses of mount(8).
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import re
import resource
import signal
import sys
import warnings
from collections.abc import Sequence

import ffrfs
from ffrfs.cli import output
from ffrfs.cli.parser import WRONG_USAGE, Parser, UsageError, add_commands
from ffrfs.cli.remote_options import add_remote_options, apply_remote_options
from ffrfs.errors import FfrfsError, PackWarning, UnverifiedHeaderWarning, describe

GROUPS = {
    "Make packs": ("pack", "add", "rm", "convert", "index", "cluster"),
    "Use packs": (
        "mount",
        "umount",
        "run",
        "prefetch",
        "warm",
        "ls",
        "cat",
        "head",
        "extract",
    ),
    "Look at packs and mounts": (
        "info",
        "view",
        "schema",
        "verify",
        "diff",
        "ps",
        "stats",
        "top",
        "log",
        "check",
        "restart",
    ),
    "Cache packs at URLs": ("cache",),
    "Run as a service": ("install-units",),
    "Try it": ("demo",),
}
COMMANDS = tuple(name for names in GROUPS.values() for name in names)
_VERSION = ("-V", "--version")
_RARE = {"index", "cluster", "install-units"}
# The commands with options for URLs; a mount has settings for them.
_OF_URLS = {
    "pack",
    "convert",
    "index",
    "ls",
    "cat",
    "head",
    "extract",
    "info",
    "view",
    "schema",
    "verify",
    "diff",
}

_EPILOG = """\
`ffrfs COMMAND --help` explains a command and shows examples; --help-all has all its options.
`ffrfs --help-all` also lists the commands that are rarely needed.

Examples:
    ffrfs pack ~/imagenet imagenet.ffr
    ffrfs mount imagenet.ffr /mnt/imagenet
    ffrfs umount /mnt/imagenet
"""

_ALIASES = {"unmount": "umount"}

_WRONG_USAGE_OF_MOUNT = 1  # as mount(8) has it
_CRITICAL = 2  # 1 of `ffrfs check` is a warning, which counts as success
_INTERRUPTED = 130  # 128 + SIGINT
_PIPE_CLOSED = 141  # 128 + SIGPIPE


def main(argv: Sequence[str] | None = None) -> int:
    output.open_streams()
    if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
        # Inherited: the kernel would reap our children, and drop the status of each.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    argv = _command_line(sys.argv[1:] if argv is None else argv)
    output.conceal_queries(argv)
    with warnings.catch_warnings():
        for told in (UnverifiedHeaderWarning, PackWarning):
            warnings.simplefilter("always", told)
        warnings.showwarning = lambda message, *_, **__: output.error(str(message))
        if argv[:1] != ["run"]:  # the program has the limit that it would have without us
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
            return _failure_of(argv)
        except RuntimeError as error:
            line = describe(error)
            if line.startswith(type(error).__name__):  # a fault of ours
                raise
            output.error(line)  # no thread can be started
            return _failure_of(argv)
        except (FfrfsError, OSError) as error:
            from ffrfs.cli.foreign_file import failure_line  # few commands need it

            output.settle()
            command = "head" if "--example" in argv else argv[0]  # what `cat` takes then
            output.error(failure_line(error, command, argv[1:]))
            return _failure_of(argv)
    return status


def _failure_of(argv: Sequence[str]) -> int:
    return _CRITICAL if argv[:1] == ["check"] else 1


def _run(argv: Sequence[str]) -> int:
    try:
        args = _parse(argv)
    except SystemExit as end:
        output.flush()  # the text of help
        if end.code == WRONG_USAGE and argv[:1] == ["mount"]:
            return _WRONG_USAGE_OF_MOUNT
        raise
    status: int
    try:
        apply_remote_options(args)
        status = args.func(args)
    except UsageError as error:
        args.usage_error(str(error))
    return status


class _Version(argparse.Action):
    """Reads the version only when it is requested: reading takes as long as a short command."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        output.line(f"ffrfs {ffrfs.__version__}")
        parser.exit()


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    # One command needs one module, the version none; help and mistakes need all of them.
    first = argv[0] if argv else ""
    parser = make_parser([first] if first in COMMANDS else () if first in _VERSION else COMMANDS)
    _refuse_unknown_command(parser, argv)
    args, unknown = parser.parse_known_args(argv)
    if unknown:
        args.usage_error(f"unknown argument {unknown[0]}")
    return args


def make_parser(commands: Sequence[str] = COMMANDS) -> argparse.ArgumentParser:
    parser = Parser(
        prog="ffrfs",
        description="Pack a directory into one file (a pack); read the pack, or mount it. Every "
        "byte is verified.",
        epilog=_EPILOG,
    )
    parser.add_argument(
        *_VERSION, action=_Version, nargs=0, help="show program's version number and exit"
    )
    parser.rare_commands = _RARE
    subparsers = add_commands(parser, GROUPS)
    for name in commands:
        command = importlib.import_module(f"ffrfs.cli.{name.replace('-', '_')}")
        its = subparsers.add_parser(
            name,
            help=command.HELP,
            description=command.DESCRIPTION,
            epilog=command.EPILOG,
            common=getattr(command, "COMMON", None),
        )
        command.add_arguments(its)
        if name in _OF_URLS:
            add_remote_options(its)
        its.set_defaults(func=command.run, usage_error=its.error)
    return parser


def _command_line(argv: Sequence[str]) -> Sequence[str]:
    """Return the arguments in the parser's words: `help` and an expected alias are replaced."""
    match argv:
        case ["help"]:
            return ["--help"]
        case ["help", command, *rest]:
            return [_ALIASES.get(command, command), *rest, "--help"]
        case ["head", *rest]:  # `head -5`, as of files
            end = rest.index("--") if "--" in rest else len(rest)
            words = (re.sub(r"^-(?=\d+$)", "-n", word, flags=re.ASCII) for word in rest[:end])
            return ["head", *words, *rest[end:]]
        case ["cache", "ls"] | ["cache", "ls", "--json"]:
            from ffrfs.remote.settings import default_cache_dir

            return [*argv, os.environ.get("FFRFS_CACHE_DIR") or default_cache_dir()]
        case [command, *rest]:
            return [_ALIASES.get(command, command), *rest]
    return argv


def _refuse_unknown_command(parser: argparse.ArgumentParser, argv: Sequence[str]) -> None:
    """Refuse an unknown command, and suggest a similar one; argparse would list all of them."""
    options = parser._option_string_actions
    if argv and argv[0].startswith("-") and argv[0] not in options:
        parser.error(f"unknown argument {argv[0]}")  # argparse would ask for the command first
    if argv and not argv[0].startswith("-") and argv[0] not in COMMANDS:
        import difflib

        similar = difflib.get_close_matches(argv[0], COMMANDS, n=1)
        hint = f". Did you mean '{similar[0]}'?" if similar else ""
        parser.error(f"unknown command '{argv[0]}'{hint}")


def _allow_many_files() -> None:
    """Raise the limit on open files to its maximum: a data set may have more than 1024 shards.

    The usual limit is 1024, for programs that call select(2).
    """
    with contextlib.suppress(OSError):  # a container may deny the call
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
