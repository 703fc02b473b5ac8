"""The request that `ffrfs mount` makes from its command line."""

from __future__ import annotations

from ffrfs.cli import main, mount
from ffrfs.mount.config.request import MountRequest, make_request


def request_of(*arguments: str) -> MountRequest:
    parsed = main.make_parser(["mount"]).parse_args(["mount", *arguments])
    return make_request(mount.asked(parsed))
