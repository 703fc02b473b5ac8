"""`ffrfs install-units`: units, helpers of mount(8), manual pages and completions."""

from __future__ import annotations

import argparse
import os
import sys

from ffrfs.cli import output
from ffrfs.cli.parser import UsageError
from ffrfs.service.installation import PREFIX_DEFAULT, install, service_files, uninstall
from ffrfs.service.templates import check_interpreter

HELP = "install systemd units, helpers of mount(8), manual pages and completions"
DESCRIPTION = """\
Install ffrfs as a service of this machine: the systemd units ffrfs@.service and ffrfs.target, the
helpers of mount(8) for the types ffrfs and fuse.ffrfs, examples, manual pages, and completions for
bash, zsh and fish. Units and helpers run the ffrfs of the Python that runs this command. The
command lists the files that it writes, and replaces only files that it wrote itself.
"""
EPILOG = """\
Examples:
    ffrfs install-units --dry-run
    sudo ffrfs install-units
    ffrfs install-units --destdir package --prefix /usr
    sudo ffrfs install-units --uninstall
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--destdir",
        metavar="DIR",
        default="/",
        help="install below DIR instead of /, for a package or for review",
    )
    parser.add_argument(
        "--prefix",
        metavar="DIR",
        default=PREFIX_DEFAULT,
        help="where to install everything but the helpers of mount(8); use /usr in a "
        "distribution's package (default: %(default)s)",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="list what would be done, and change nothing"
    )
    parser.add_argument(
        "--force", action="store_true", help="also replace or remove files that others changed"
    )
    parser.add_argument(
        "--uninstall", action="store_true", help="remove the installed files, and nothing else"
    )


def run(args: argparse.Namespace) -> int:
    if not args.destdir:
        raise UsageError("--destdir: is empty; leave it out to install below /")
    # abspath() keeps two leading slashes, but "//" is "/".
    root = "/" + os.path.abspath(args.destdir).lstrip("/")
    prefix = os.path.join("/", args.prefix)
    interpreter = os.path.abspath(sys.executable)  # keeps the link of a virtual environment
    files = service_files(interpreter, prefix)
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
