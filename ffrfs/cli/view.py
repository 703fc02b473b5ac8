"""`ffrfs view`: pages about a data set, for a browser."""

from __future__ import annotations

import argparse
import webbrowser

from ffrfs.cli import output
from ffrfs.cli.number import whole_number

HELP = "look at a data set in a browser"
DESCRIPTION = """\
Serve pages about a data set, and print the link: its files as thumbnails or its Examples with
their boxes, statistics, the state of its records, and what a mount does. Only this machine
reaches them, and only with the link. Ctrl-C ends it.
"""
EPILOG = """\
Examples:
    ffrfs view imagenet.ffr
    ffrfs view --open train.tfrecord
    ffrfs view coco/1.1.0/train --second coco/1.1.0/validation
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "source",
        metavar="PACK",
        nargs="+",
        help="a pack, a directory of packs, a TFRecord file, a directory of them, a TFDS directory "
        "or its split, a mount point, or a URL; several are one data set",
    )
    parser.add_argument(
        "--second", metavar="PACK", help="compare the statistics with those of another data set"
    )
    parser.add_argument(
        "--schema", metavar="FILE", help="check the statistics against one of `ffrfs schema infer`"
    )
    parser.add_argument(
        "--port",
        metavar="N",
        type=whole_number(0, 65535),
        default=0,
        help="listen at this port (default: a free one)",
    )
    parser.add_argument(
        "--host",
        metavar="NAME",
        default="127.0.0.1",
        help="listen at another address of this machine, so that others reach it with the link; "
        "the link goes over the network as plain text",
    )
    parser.add_argument("--open", action="store_true", help="open the link in the browser")


def run(args: argparse.Namespace) -> int:
    from ffrfs.view.view import view

    options = {name: getattr(args, name) for name in ("second", "schema", "host", "port")}
    with view(args.source, **options) as served:
        output.line(served.url)
        output.flush()
        if args.open:
            webbrowser.open(served.url)
        served.wait()
    return 0
