"""Packs with a false index, packed again: an error names the pack, or no byte is from elsewhere."""

from __future__ import annotations

import os
import stat
import warnings
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

from ffrfs.errors import FfrfsError
from ffrfs.packing.pack import repack
from tests.folder.folder_model import shown
from tests.hostile.index_cases import CASES, CHUNK_CASES, LARGE_TREE, TREE, Spoil
from tests.index_file import Link, Tree, indexed_pack
from tests.mount.child import child

TIMEOUT_S = 60
OPTIONS: list[dict[str, Any]] = [{}, {"symlinks": "follow", "dedup": True}, {"files": ["b"]}]


def contents(tree: Tree) -> Iterator[bytes]:
    for entry in tree.values():
        if isinstance(entry, dict):
            yield from contents(entry)
        elif not isinstance(entry, Link):
            yield entry


def repacked(pack: str, out: str) -> Iterator[set[bytes] | str]:
    """Yield for each of OPTIONS in turn the bytes of all files that come out, or the error."""
    warnings.simplefilter("ignore")
    for options in cycle(OPTIONS):
        try:
            repack(pack, out, **options)
        except (FfrfsError, OSError) as error:
            yield str(error)
        else:
            yield {
                entry.content
                for entry in shown(Path(out)).values()
                if entry.content is not None and stat.S_ISREG(entry.mode)
            }


def check(tmp_path: Path, tree: Tree, cases: dict[str, Spoil]) -> int:
    """Pack each of the packs again; return how many succeed."""
    pack, out = tmp_path / "old.ffr", tmp_path / "out" / "x.ffr"
    out.parent.mkdir()
    known = set(contents(tree))
    packed = 0
    with child(repacked, str(pack), str(out)) as process:
        for name, spoil in cases.items():
            pack.unlink(missing_ok=True)  # ext4 writes a truncated file to disk at once
            pack.write_bytes(indexed_pack(tree, spoil))
            answer = process.next(TIMEOUT_S)
            if isinstance(answer, str):
                assert str(pack) in answer, name
                assert "\n" not in answer, name
                assert os.listdir(out.parent) == [], name
            else:
                assert answer <= known, name
                out.unlink()
                packed += 1
    return packed


def test_false_indexes(tmp_path: Path) -> None:
    cases = {f"{family}: {name}": CASES[family][name] for family in CASES for name in CASES[family]}
    check(tmp_path, TREE, cases)


def test_false_checksums_of_parts(tmp_path: Path) -> None:
    check(tmp_path, LARGE_TREE, CHUNK_CASES)


def test_a_sound_index(tmp_path: Path) -> None:
    sound: dict[str, Spoil] = {str(number): lambda _: None for number in range(len(OPTIONS))}
    assert check(tmp_path, TREE, sound) == len(OPTIONS)
