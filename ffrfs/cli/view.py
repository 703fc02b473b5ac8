"""`ffrfs view`: pages about a data set, for a browser."""

from __future__ import annotations

import argparse
import contextlib
import html
import os
import tempfile
import webbrowser
from collections.abc import Iterator
from pathlib import Path

from ffrfs.cli import output
from ffrfs.cli.cleaning_up import cleaning_up
from ffrfs.cli.number import whole_number

HELP = "look at a data set in a browser"
DESCRIPTION = """\
Serve pages about a data set, and print their link. The pages show files as thumbnails, or Examples
with their boxes; statistics; the state of the records; and a mount at work. Only programs on this
machine reach the pages, and only with the link. Ctrl-C ends the server.
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
        "--schema",
        metavar="FILE",
        help="check the statistics against a schema (`ffrfs schema infer`)",
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
    from ffrfs.view.view import serve_pages

    address = (args.host, args.port)
    # Pages of any server at this address could frame it.
    with serve_pages(args.source, args.second, args.schema, address, is_framed=False) as served:
        output.line(served.url)
        output.flush()
        with _private_page(served.url) if args.open else contextlib.nullcontext() as page:
            if page is not None:
                webbrowser.open(page)
            served.wait()
    return 0


@contextlib.contextmanager
def _private_page(link: str) -> Iterator[str]:
    """Yield the URL of a file that leads to `link`.

    Other users see the command line of a browser, which must not have the token.
    """
    with cleaning_up(), tempfile.TemporaryDirectory(prefix="ffrfs-view-") as folder:  # mode 0700
        file = Path(folder, "view.html")
        with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as page:
            page.write(f'<meta http-equiv="refresh" content="0; url={html.escape(link)}">\n')
        yield file.as_uri()
