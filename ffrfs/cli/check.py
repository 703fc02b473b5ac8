"""`ffrfs check`: the health of mounts, for Nagios, Kubernetes and their like."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from ffrfs.cli import output
from ffrfs.printable import printable, quoted

HELP = "check within a second whether mounts are well"
DESCRIPTION = """\
Print one line for each MOUNTPOINT: OK, WARNING or CRITICAL, and the reason. The command ends within
a second, also if mounts hang.
"""
EPILOG = """\
OK: the mount answers. WARNING: it answers, but files could not be read since it was mounted, a
pack was replaced since then, its cache directory cannot be used or blocks are cached in memory
alone, memory pressure has shrunk its cache, its daemon is being replaced, or reads have waited for
storage for 5 seconds. CRITICAL: it is not mounted, dead, of another type or of another user who did
not allow others (-o allow_other), it does not answer, all reads fail, or reads have waited for
storage for 10 seconds. The exit status is that of the worst mount: 0 OK, 1 WARNING, 2 CRITICAL.

Examples:
    ffrfs check /mnt/imagenet
    ffrfs check /mnt/imagenet || [ $? = 1 ]      # a warning counts as success
"""
_STATUSES = {"ok": 0, "warning": 1, "critical": 2}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "mountpoints", metavar="MOUNTPOINT", nargs="+", help="a place where ffrfs should be mounted"
    )
    parser.add_argument("--json", action="store_true", help="print a JSON array")


def run(args: argparse.Namespace) -> int:
    from ffrfs.mount.client.health import check_mounts

    found = check_mounts(args.mountpoints)
    if args.json:
        output.json_array(map(asdict, found))
    else:
        for each in found:
            age = "" if each.age_s is None else f", mounted for {output.duration(each.age_s)}"
            text = f"{each.mountpoint or quoted(each.mountpoint)}: {each.text}{age}"
            output.line(f"{each.status.upper()} {printable(text)}")
    return max(_STATUSES[each.status] for each in found)
