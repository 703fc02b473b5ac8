"""`ffrfs install-units`: units, helpers of mount(8), manual pages and completions."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

from ffrfs.cli import output
from ffrfs.service.installation import PREFIX_DEFAULT, install, service_files, uninstall
from ffrfs.service.templates import check_interpreter

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "install-units",
        help="install systemd units, helpers of mount(8), manual pages and completions",
        description="Install what makes ffrfs a service of this machine: the systemd units "
        "ffrfs@.service and ffrfs.target, the helpers of mount(8) for the types ffrfs and "
        "fuse.ffrfs, examples, manual pages, and completions for bash, zsh and fish. They run "
        "the ffrfs of the Python that runs this command. Says what it writes; replaces only what "
        "it has itself written.",
    )
    parser.add_argument(
        "--destdir",
        metavar="DIR",
        default="/",
        help="below DIR instead of /, to be packaged or looked at",
    )
    parser.add_argument(
        "--prefix",
        metavar="DIR",
        default=PREFIX_DEFAULT,
        help="where all but the helpers of mount(8) go; a distribution's package wants /usr "
        "(default: %(default)s)",
    )
    parser.add_argument("--dry-run", action="store_true", help="say what would be done, do nothing")
    parser.add_argument(
        "--force", action="store_true", help="also replace or remove what others have changed"
    )
    parser.add_argument(
        "--uninstall", action="store_true", help="remove what was installed, and nothing else"
    )
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    from ffrfs.cli.main import make_parser

    root, prefix = os.path.abspath(args.destdir), os.path.join("/", args.prefix)
    interpreter = os.path.abspath(sys.executable)  # not what a virtual environment's leads to
    files = service_files(make_parser(), interpreter, prefix)
    if args.uninstall:
        done = uninstall(files, root, force=args.force, dry_run=args.dry_run)
    else:
        check_interpreter(interpreter)
        done = install(files, root, force=args.force, dry_run=args.dry_run)
    acts = set()
    for act, what in done:
        output.line(f"{act} {what}")
        acts.add(act)
    if root == "/" and acts & {"wrote", "removed"}:
        output.line("then run: systemctl daemon-reload")
    return 1 if "kept" in acts else 0
