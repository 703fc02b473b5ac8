"""Directories to pack by plans, these plans, and checks of the sets."""

from __future__ import annotations

import contextlib
import os
import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from ffrfs.cluster import Plan, pack_by_plan, plan
from ffrfs.cluster.kept_plan import kept_plan
from ffrfs.cluster.request import Request
from ffrfs.packing.sources.options import PackOptions

SEED = 20_240


def make_tree(root: Path, *, folders: int = 6, files: int = 6, size: int = 3000) -> Path:
    """Make nested directories with files up to `size`, an empty directory, odd names and times."""
    chance = random.Random(SEED)
    for number in range(folders):
        folder = root / f"d{number % 3}" / f"e{number}"
        folder.mkdir(parents=True)
        for file in range(files):
            path = folder / f"{file:03} é.bin"
            path.write_bytes(chance.randbytes(chance.randrange(size)))
            path.chmod(chance.choice([0o644, 0o600, 0o755]))
            os.utime(path, ns=(0, chance.randrange(2**60)))
    (root / "top").write_bytes(b"top")
    (root / "zero").write_bytes(b"")
    (root / "d1" / "e1" / "nothing" / "below").mkdir(parents=True)
    for path in sorted(root.rglob("*")):
        if path.is_dir():
            os.utime(path, ns=(0, 1_500_000_000_000_000_000))
    os.utime(root, ns=(0, 1_400_000_000_000_000_000))
    return root


def add_links(root: Path) -> Path:
    """Add links to a file, to a directory, and out of the tree, and one whose target is no text."""
    (root / "d0" / "to file").symlink_to("../top")
    (root / "d2" / "to folder").symlink_to("../d1")
    (root / "away").symlink_to("/nowhere")
    os.symlink(b"\xff\xfe", os.fsencode(root / "d0" / "bytes"))
    return root


def planned(source: Path | list[Path], target: Path, path: Path, **options: object) -> Plan:
    """Make a plan at `path`, of three shards unless `options` say otherwise; a thread lists."""
    if "shard_size" not in options:
        options.setdefault("shards", 3)
    with ThreadPoolExecutor(1) as thread:
        return plan(source, target, path, **{"executor": thread, **options})  # type: ignore[arg-type]


@contextlib.contextmanager
def kept(
    source: Path,
    target: Path | str,
    shards: int,
    *,
    append: bool = False,
    tmp_dir: Path | None = None,
    while_listing: Callable[[], object] = lambda: None,
) -> Iterator[Plan]:
    """Yield the plan of a command; `while_listing` is called before the command begins to write."""
    is_held = False

    def hold(*_: int) -> None:
        nonlocal is_held
        if not is_held:
            is_held = True
            while_listing()

    request = Request.of(source, target, PackOptions(shards=shards, append=append))
    options = PackOptions(progress=hold, tmp_dir=tmp_dir)
    with ThreadPoolExecutor(1) as pool, kept_plan(request, pool, options) as plan:
        yield plan


class Beginning:
    """Begins a command when it is called; the command lasts as long as `stack`."""

    def __init__(self, stack: contextlib.ExitStack, *what: Any, **how: Any) -> None:
        self._begin = lambda: stack.enter_context(kept(*what, **how))

    def __call__(self, *_: object) -> None:
        self.plan: Plan = self._begin()


def finish(plan: Plan, **making: Any) -> Any:
    """Make the shards of a plan and complete the set: pack_by_plan() by two threads."""
    with ThreadPoolExecutor(2) as pool:
        return pack_by_plan(plan, pool, **making)


def states(target: Path) -> dict[str, tuple[int, int]]:
    """Return the inode and the time of each shard, by which a replaced one is seen."""
    return {
        path.name: (path.stat().st_ino, path.stat().st_mtime_ns) for path in target.glob("*.ffr")
    }


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def shards_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*.ffr")}


def assert_nothing_else(folder: Path) -> None:
    """The folder must have only shards and the manifest."""
    others = {path.name for path in folder.iterdir() if path.suffix != ".ffr"}
    assert others == {".ffrfs-manifest.jsonl"}, sorted(others)


class EndedError(BaseException):
    """Ends a command here, as if it were killed."""


class Steps:
    """Counts calls down from `left`; the call that reaches 0, and all after it, end the command."""

    def __init__(self, left: int) -> None:
        self.left = left

    def counted(self, function):
        def call(*arguments, **named):
            self.left -= 1
            if self.left <= 0:
                raise EndedError
            return function(*arguments, **named)

        return call
