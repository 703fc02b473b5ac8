"""Data sets of every kind that can be cut into ranges, with the rows that they must give."""

from __future__ import annotations

import random
from pathlib import Path
from typing import NamedTuple

import ffrfs
from tests.ffrecord_file import Tree, flip_byte, record_extents, write_folder, write_records
from tests.tfrecord_file import write_tfrecord

SMALL = ("pack", "set", "list", "shared", "indexless", "empty", "records", "tfrecords")


class Sample(NamedTuple):
    packs: str | list[str]
    rows: list[tuple[str | int, bytes]]  # sorted


def _sample(packs: Path | list[Path], contents: dict[str, bytes] | list[bytes]) -> Sample:
    rows = contents.items() if isinstance(contents, dict) else enumerate(contents)
    paths = [str(pack) for pack in packs] if isinstance(packs, list) else str(packs)
    return Sample(paths, sorted(rows))


def _contents(count: int) -> dict[str, bytes]:
    numbers = random.Random(count)
    contents = {
        f"{number % 3}/ü{number:03}.bin": numbers.randbytes(numbers.randrange(3000))
        for number in range(count)
    }
    return {**contents, "empty": b"", "z/deep/er/file": b"deep"}


def _write(folder: Path, contents: dict[str, bytes]) -> Path:
    for path, data in contents.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    return folder


def small_samples(place: Path) -> dict[str, Sample]:
    """Return a sample of each kind in SMALL, written below `place`."""
    contents = _contents(60)
    folder = _write(place / "folder", contents)
    (folder / "link").symlink_to("empty")
    (folder / "nothing").mkdir()
    ffrfs.pack_folder(folder, place / "pack.ffr", symlinks="keep")
    ffrfs.pack_folder(folder, place / "set", shards=3, symlinks="keep", order="size")
    ffrfs.repack(place / "pack.ffr", place / "whole.ffr")

    ffrfs.pack_folder(_write(place / "other", {"other": b"other"}), place / "other.ffr")

    doubles = contents | {f"again/{path}": data for path, data in contents.items()}
    ffrfs.pack_folder(_write(place / "doubles", doubles), place / "shared", shards=2, dedup=True)
    tree: Tree = {"a": {"b": b"b"}, "c": b"c" * 5000, "d": {}}
    (place / "none").mkdir()
    ffrfs.pack_folder(place / "none", place / "empty.ffr")

    records = [bytes([number]) * number * 10 for number in range(70)]
    for name in ("records", "tfrecords"):
        (place / name).mkdir()
    write_records(place / "records" / "1.ffr", records[:50])
    write_records(place / "records" / "2.ffr", records[50:])
    write_tfrecord(place / "tfrecords" / "1.tfrecord", records[:20])
    write_tfrecord(place / "tfrecords" / "2.tfrecord", records[20:])
    return {
        "pack": _sample(place / "pack.ffr", contents),
        "set": _sample(place / "set", contents),
        "list": _sample([place / "whole.ffr", place / "other.ffr"], contents | {"other": b"other"}),
        "shared": _sample(place / "shared", doubles),
        "indexless": _sample(
            write_folder(place / "indexless.ffr", tree), {"a/b": b"b", "c": b"c" * 5000}
        ),
        "empty": _sample(place / "empty.ffr", {}),
        "records": _sample(place / "records", records),
        "tfrecords": _sample(place / "tfrecords", records),
    }


def damaged_pack(place: Path) -> Sample:
    """Return a pack whose record 3 is damaged, with the rows of all other records."""
    contents = {f"{number}": b"%d" % number * 100 for number in range(8)}
    pack = place / "damaged.ffr"
    ffrfs.pack_folder(_write(place / "sound", contents), pack)
    flip_byte(pack, record_extents(pack)[3][0] + 50)
    del contents["3"]
    return _sample(pack, contents)


def large_pack(place: Path, size: int) -> Sample:
    """Return a pack with a file of `size` bytes among small ones."""
    contents = {f"a{number}": b"small" for number in range(10)}
    contents |= {"b": random.Random(1).randbytes(1 << 20) * (size >> 20), "c": b"last"}
    with ffrfs.PackWriter(place / "large.ffr") as writer:
        for path, data in contents.items():
            writer.add(path, data)
    return _sample(place / "large.ffr", contents)
