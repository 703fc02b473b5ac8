"""Options of all commands that take URLs: where the servers are, and how long to wait.

The options set variables of the environment (FFRFS_ENDPOINT_URL and so on): so all code that
reads settings gets them, and so do child processes. There are no options for credentials,
because ps would show them.

Not here: the settings of a mount (ffrfs.mount.config), their meaning (ffrfs.remote.settings).
"""

from __future__ import annotations

import argparse
import os

from ffrfs.cli.parser import RARE, UsageError
from ffrfs.errors import OptionError


def add_remote_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(
        RARE, "Credentials come from the environment and the files of the cloud."
    )
    group.add_argument(
        "--endpoint-url",
        metavar="URL",
        help="the server of s3://, gs:// or az:// (default: the cloud's own)",
    )
    group.add_argument("--region", metavar="NAME", help="region of S3 (default: the environment's)")
    group.add_argument(
        "--anonymous", action="store_true", help="use no credentials, for public buckets"
    )
    group.add_argument(
        "--offline", action="store_true", help="read the cache alone, and ask no server"
    )
    group.add_argument(
        "--remote-timeout",
        metavar="SECONDS",
        help="fail a read that got no answer within SECONDS (default: 60)",
    )
    parser.set_defaults(sets_remote=True)


def apply_remote_options(args: argparse.Namespace) -> None:
    """Set the variables of the environment. Raises UsageError."""
    if not getattr(args, "sets_remote", False):
        return
    names = ("endpoint_url", "region", "remote_timeout")
    given = {f"FFRFS_{name.upper()}": getattr(args, name) for name in names}
    for name in ("anonymous", "offline"):
        given[f"FFRFS_{name.upper()}"] = "1" if getattr(args, name) else None
    variables = {name: value for name, value in given.items() if value is not None}
    os.environ.update(variables)
    if variables:
        from ffrfs.remote.settings import RemoteSettings

        try:
            RemoteSettings.from_environment()
        except OptionError as error:
            raise UsageError(str(error)) from None
