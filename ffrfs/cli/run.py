"""`ffrfs run`: a program whose DataLoaders send the mount their order, by an unchanged script."""

from __future__ import annotations

import argparse
import os
import signal
from pathlib import Path

import ffrfs
from ffrfs.cli import output
from ffrfs.cli.number import whole_number
from ffrfs.errors import describe

HELP = "run a training program that tells the mount its order by itself"
DESCRIPTION = """\
Run PROGRAM. When PROGRAM iterates a DataLoader of PyTorch, ffrfs tells the mount which files the
sampler will give next, and the mount reads them ahead. The batches and random numbers of PROGRAM
do not change.
"""
EPILOG = """\
PROGRAM takes the place of this command: signals, input, output and exit status are its own. The
status is 127 if there is no PROGRAM, and 126 if it cannot be run. The Python that it runs needs
ffrfs. Processes that it starts are included (torchrun, workers), unless they run Python with -I or
-E. If ffrfs cannot know the order, it says so once on standard error and sends no hints.

Examples:
    ffrfs run python train.py --data /mnt/imagenet
    ffrfs run --ahead 4096 torchrun --nproc-per-node 8 train.py
"""

_STARTUP = Path(ffrfs.__file__).parent / "adapters" / "torch" / "startup"
_NOT_FOUND, _NOT_RUN = 127, 126  # as env(1) has them


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--ahead",
        metavar="N",
        type=whole_number(1, 1 << 30),
        default=1024,
        help="how many samples the hints are ahead of the program (default: 1024)",
    )
    parser.add_argument(
        "command", metavar="PROGRAM", nargs=argparse.PARSER, help="a program, and its own arguments"
    )


def run(args: argparse.Namespace) -> int:
    known = os.environ.get("PYTHONPATH")
    paths = [str(_STARTUP), *(known.split(os.pathsep) if known else [])]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(paths),
        "FFRFS_RUN_AHEAD": str(args.ahead),
    }
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and PROGRAM would, too
        signal.signal(number, signal.SIG_DFL)
    program, *rest = args.command[args.command[0] == "--" :]
    if not program:
        output.error("'': no such program")
        return _NOT_FOUND
    try:
        os.execvpe(program, [program, *rest], environment)
    except OSError as error:
        output.error(describe(OSError(error.errno, error.strerror, program)))
        is_missing = isinstance(error, FileNotFoundError | NotADirectoryError)
        return _NOT_FOUND if is_missing else _NOT_RUN
