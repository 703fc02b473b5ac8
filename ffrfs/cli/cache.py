"""`ffrfs cache`: manage the cache directory of packs at URLs."""

from __future__ import annotations

import argparse
import dataclasses
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from ffrfs.cli import output
from ffrfs.cli.number import size_bytes
from ffrfs.cli.parser import UsageError
from ffrfs.errors import CacheError

if TYPE_CHECKING:
    from ffrfs.cache.inventory import Inventory, ObjectFacts

HELP = "manage the cache of packs at URLs"
DESCRIPTION = """\
List, check, remove and pin the objects (packs and other files at URLs) in the cache directory DIR.
"""
EPILOG = """\
ACTION is one of
  ls      list objects: how much of each is in the cache, when it was last read
  du      show the size of the directory
  verify  check the cached records against their checksums; exit status 1 if
          one is bad
  prune   remove what killed processes left behind; with --size, also blocks
          that were not read for the longest time
  rm      remove objects; readers of an object in use fetch it again; pinned
          objects need --force
  pin     keep objects: blocks of all other objects are removed first
  unpin   undo pin

An OBJECT is a URL or a name, as ls shows them; the first 6 digits of a name are enough.
Mounts can use the directory meanwhile.

Examples:
    ffrfs cache ls ~/.cache/ffrfs
    ffrfs cache verify --json /nvme/ffrfs
    ffrfs cache prune --size 100G /nvme/ffrfs
    ffrfs cache pin /nvme/ffrfs s3://bucket/imagenet.ffr
"""

_WITH_OBJECTS = ("rm", "pin", "unpin")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "action", metavar="ACTION", choices=_ACTIONS, help=f"one of {', '.join(_ACTIONS)}"
    )
    parser.add_argument(
        "directory",
        metavar="DIR",
        help="the cache directory; without it, ls lists the cache of mounts, FFRFS_CACHE_DIR or "
        "~/.cache/ffrfs",
    )
    parser.add_argument(
        "objects",
        metavar="OBJECT",
        nargs="*",
        default=[],  # else argparse says that it is required
        help="a URL or a name; required by rm, pin and unpin (default: all)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--force", action="store_true", help="rm: also remove pinned objects")
    parser.add_argument(
        "--size",
        metavar="SIZE",
        type=size_bytes,
        help="prune: also remove blocks, least recently read first, until DIR holds at most SIZE "
        "(500G, 1T); blocks of pinned objects stay",
    )


def run(args: argparse.Namespace) -> int:
    from ffrfs.cache.inventory import Inventory

    if args.action in _WITH_OBJECTS and not args.objects:
        raise UsageError(f"{args.action} needs an OBJECT")
    if args.action in ("du", "prune") and args.objects:
        raise UsageError(f"{args.action} takes no OBJECT: it is about the whole DIR")
    if args.action != "prune" and args.size is not None:
        raise UsageError("--size is an option of prune")
    if args.action != "rm" and args.force:
        raise UsageError("--force is an option of rm")
    inventory = Inventory(args.directory)
    try:
        return _ACTIONS[args.action](inventory, args)
    finally:
        inventory.close()


def _chosen(inventory: Inventory, args: argparse.Namespace) -> list[ObjectFacts]:
    return inventory.find(args.objects) if args.objects else list(inventory.objects())


def _ls(inventory: Inventory, args: argparse.Namespace) -> int:
    objects = _chosen(inventory, args)
    if args.json:
        output.json_array(map(dataclasses.asdict, objects))
    else:
        output.lines(map(_shown, objects))
    return 0


def _shown(facts: ObjectFacts) -> str:
    percent = 100 * facts.blocks // facts.block_count if facts.block_count else 100
    used = "never used"
    if facts.used_s:
        used = f"used {output.duration(max(time.time() - facts.used_s, 0))} ago"
    marks = (", pinned" if facts.pinned else "") + (", in use" if facts.in_use else "")
    return (
        f"{facts.name[:12]}  {output.size(facts.cached):>10} {percent:>3}% of "
        f"{output.size(facts.size):>10}  {facts.url}  ({used}{marks})"
    )


def _du(inventory: Inventory, args: argparse.Namespace) -> int:
    objects = list(inventory.objects())
    fields = {
        "objects": len(objects),
        "cached": sum(each.cached for each in objects),
        "held": sum(each.held for each in objects),
        "pinned": sum(each.held for each in objects if each.pinned),
        "in_use": sum(each.held for each in objects if each.in_use),
    }
    if args.json:
        output.json_object(fields)
        return 0
    shown = {"size": "held", "pinned": "pinned", "in use": "in_use"}
    sizes = {title: output.size(fields[name]) for title, name in shown.items()}
    output.titled({"objects": f"{fields['objects']:,}", **sizes})
    return 0


def _verify(inventory: Inventory, args: argparse.Namespace) -> int:
    from ffrfs.cache.check import check_object

    reports: list[dict[str, object]] = []
    for facts in _chosen(inventory, args):
        with inventory.store.opened(facts.name) as files:
            if files is not None:
                report = dataclasses.asdict(check_object(files, facts.url))
                reports.append({"name": facts.name, "url": facts.url, **report})
    if not args.objects:
        for name, reason in inventory.unreadable():
            reports.append({"name": name, "url": "", "records": None, "problems": [reason]})
    if args.json:
        output.json_array(reports)
    else:
        for fields in reports:
            _show_report(fields)
    return 1 if any(fields["problems"] for fields in reports) else 0


def _show_report(fields: dict[str, object]) -> None:
    shown = fields["url"] or fields["name"]
    problems = fields["problems"]
    assert isinstance(problems, list)
    for problem in problems:
        output.line(f"{shown}: {problem}")
    if problems:
        return
    if fields["records"] is None:
        output.line(f"{shown}: no cached block is missing; {fields['why_not']}")
    else:
        output.line(f"{shown}: good, {fields['records']:,} records verified")


def _free(inventory: Inventory, args: argparse.Namespace) -> int:
    if args.action == "prune":
        freed = inventory.prune(args.size)
    else:
        objects = _chosen(inventory, args)
        pinned = next((each.url for each in objects if each.pinned), None)
        if pinned is not None and not args.force:
            raise CacheError(f"{pinned}: is pinned; to remove it all the same: --force")
        freed = sum(inventory.remove(each.name) for each in objects)
    if args.json:
        output.json_object({"freed": freed})
    else:
        output.line(f"{output.size(freed)} removed")
    return 0


def _pin(inventory: Inventory, args: argparse.Namespace) -> int:
    objects = _chosen(inventory, args)
    for each in objects:
        inventory.pin(each.name, args.action == "pin")
    if args.json:
        output.json_array({"name": each.name, "url": each.url} for each in objects)
    return 0


_ACTIONS: dict[str, Callable[[Inventory, argparse.Namespace], int]] = {
    "ls": _ls,
    "du": _du,
    "verify": _verify,
    "prune": _free,
    "rm": _free,
    "pin": _pin,
    "unpin": _pin,
}
