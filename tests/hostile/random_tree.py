"""Random trees made from a seed, and packs of every kind that show them.

make_trial() packs one tree, and two others to write over its pack: one of the same names and
sizes, which is hardest to tell apart, and one of another tree.
"""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ffrfs import pack_folder
from tests.index_file import Link, Tree, plain_pack, write_sidecar
from tests.mount.example_tree import example
from tests.tfrecord_file import write_tfrecord

_SMALL_SIZES = [0, 1, 100, 4095, 4096, 5000, 5000, 5000]
_SIZES = [*_SMALL_SIZES, 70_000, 110_000]
# The last one is verified by chunks, with checksums of the index or with fingerprints.
_LARGE_SIZES = [300_000, 1_500_000, (4 << 20) + 12_345]
_FOLDERS_MAX, _FILES_MAX, _DEPTH_MAX = 4, 8, 3
_MANY = 400  # enough for an index of several blocks
_RECORD_COUNT = 60
_SHARD_COUNT = 3


@dataclass
class Trial:
    """`files` are mounted, by themselves or as the folder that they lie in; `others`: contents
    that may replace each of them; `model`: the folder that a mount must show."""

    files: list[Path]
    others: list[list[bytes]]
    model: Path


def make_trial(kind: str, folder: Path, seed: int) -> Trial:
    pack = KINDS[kind]
    shape = random.Random(seed)
    first, second = _shape(shape), _shape(shape)
    trees = [_fill(first, seed), _fill(first, seed + 1), _fill(second, seed + 2)]
    made = []
    for number, tree in enumerate(trees):
        place = folder / str(number)
        place.mkdir(parents=True)
        made.append(pack(place, tree))
    others = [[file.read_bytes() for file in files] for files in zip(*made[1:], strict=True)]
    model = folder / "model"
    if kind == "tfrecord":
        command = [sys.executable, "-m", "ffrfs", "extract", made[0][0], model]
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL, timeout=60)
    else:
        write_tree(model, trees[0] if kind in ("indexed", "shards") else _without_links(trees[0]))
    return Trial(made[0], others, model)


def _pack_indexed(place: Path, tree: Tree) -> list[Path]:
    pack_folder(write_tree(place / "source", tree), place / "pack.ffr", symlinks="keep")
    return [place / "pack.ffr"]


def _pack_pickled(place: Path, tree: Tree) -> list[Path]:
    pack = place / "pack.ffr"
    pack.write_bytes(plain_pack(_without_links(tree)))
    return [pack]


def _pack_with_sidecar(place: Path, tree: Tree) -> list[Path]:
    (pack,) = _pack_pickled(place, tree)
    return [pack, write_sidecar(pack, _without_links(tree))]


def _pack_shards(place: Path, tree: Tree) -> list[Path]:
    source = write_tree(place / "source", tree)
    pack_folder(source, place / "set", shards=_SHARD_COUNT, symlinks="keep")
    return sorted((place / "set").iterdir())


def _pack_examples(place: Path, tree: Tree) -> list[Path]:
    contents = [tree[b"large%d" % size] for size in _LARGE_SIZES]
    contents += [tree[b"many"][b"%06d" % number] for number in range(_RECORD_COUNT)]
    records = [
        example({"image/encoded": ("bytes_list", [content]), "label": ("int64_list", [number])})
        for number, content in enumerate(contents)
    ]
    return [write_tfrecord(place / "pack.tfrecord", records)]


KINDS: dict[str, Callable[[Path, Tree], list[Path]]] = {
    "indexed": _pack_indexed,
    "pickled": _pack_pickled,
    "sidecar": _pack_with_sidecar,
    "shards": _pack_shards,
    "tfrecord": _pack_examples,
}


def write_tree(folder: Path, tree: Tree) -> Path:
    folder.mkdir()
    for name, entry in tree.items():
        path = folder / name.decode()
        if isinstance(entry, Link):
            path.symlink_to(entry.decode())
        elif isinstance(entry, bytes):
            path.write_bytes(entry)
        else:
            write_tree(path, entry)
    return folder


def _shape(order: random.Random, depth: int = 0) -> Tree:
    """Return a tree whose contents are zeros of the right size."""
    tree: dict[bytes, bytes | Link | Tree] = {}
    for number in range(order.randrange(1, _FILES_MAX)):
        tree[_name(order, b"f%d" % number)] = bytes(order.choice(_SIZES))
    tree[_name(order, b"l")] = Link(b"../" * depth + b"somewhere")
    if depth < _DEPTH_MAX:
        for number in range(order.randrange(_FOLDERS_MAX)):
            tree[_name(order, b"d%d" % number)] = _shape(order, depth + 1)
    if depth == 0:
        tree |= {b"large%d" % size: bytes(size) for size in _LARGE_SIZES}
        many = {b"%06d" % number: bytes(order.choice(_SMALL_SIZES)) for number in range(_MANY)}
        tree[b"many"] = many
    return tree


def _name(order: random.Random, prefix: bytes) -> bytes:
    tails = [b"", b" ", b".jpeg", "é".encode(), b"\n", b"*" * 200, b"\\"]
    return prefix + order.choice(tails)


def _fill(tree: Tree, seed: int) -> Tree:
    order = random.Random(seed)

    def fill(entry: bytes | Link | Tree) -> bytes | Link | Tree:
        if isinstance(entry, Link):
            return entry
        if isinstance(entry, bytes):
            return order.randbytes(len(entry))
        return {name: fill(inner) for name, inner in entry.items()}

    return {name: fill(entry) for name, entry in tree.items()}


def _without_links(tree: Tree) -> Tree:
    kept: dict[bytes, bytes | Link | Tree] = {}
    for name, entry in tree.items():
        if not isinstance(entry, Link):
            kept[name] = entry if isinstance(entry, bytes) else _without_links(entry)
    return kept
