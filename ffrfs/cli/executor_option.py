"""The option of commands that many workers can do, and the list of tasks that failed.

Not here: the engines (ffrfs.cluster).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager

from ffrfs.cli import output
from ffrfs.errors import UnfinishedError


def add_executor_option(parser: argparse._ActionsContainer, what: str) -> None:
    """`what`: the work, as in "verify the files"."""
    parser.add_argument(
        "--executor",
        metavar="ENGINE",
        help=f"{what} by processes[:N] of this machine, dask://HOST:PORT, ray, ray://HOST:PORT "
        "or mpi; see docs/cluster.md",
    )


@contextmanager
def listing_failures() -> Iterator[None]:
    """Print a line for each task that failed, before the error that says how many there are."""
    try:
        yield
    except UnfinishedError as error:
        for failure in error.failures:
            output.error(failure)
        raise
