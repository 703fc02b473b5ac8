"""Packing an archive shows one progress, from the first byte to the last."""

from __future__ import annotations

import os
import random
import shutil
import threading
from pathlib import Path

import pytest

from ffrfs.packing.pack_file import Run, write_pack
from ffrfs.packing.sources.archive import ArchiveSource
from ffrfs.packing.sources.archive_progress import ArchiveProgress
from ffrfs.packing.sources.options import PackOptions
from tests.ffrecord_file import Tree
from tests.folder.archives import write_tree

LARGE = random.Random(1).randbytes(2 << 20)  # does not compress
TREE: Tree = {"a": {"large": LARGE, "x": b"x"}, "b": b"b" * 1000, "z": b""}
FILE_COUNT = 4

# (files done, files in all, bytes done, bytes in all)
States = list[tuple[int, int, int, int]]


def pack(archive: Path, out: Path, digests: bool = False) -> States:
    """Pack the archive; return each state that a progress bar gets."""
    seen: States = []
    progress = ArchiveProgress(lambda *state: seen.append(state))
    options = PackOptions(dedup=digests)
    source = ArchiveSource(str(archive), options, target=str(out), progress=progress)
    source.number()
    size = source.entries.byte_count
    write_pack(
        source,
        str(out),
        Run(0, source.entries.record_count),
        1,
        lambda files, done: progress(files, FILE_COUNT, done, size),
    )
    source.close()
    return seen


@pytest.mark.long
@pytest.mark.parametrize("name", ["x.tar", "x.tar.gz", "x.tar.bz2", "x.tar.xz", "x.zip"])
def test_listing_and_packing_share_one_progress(tmp_path: Path, name: str) -> None:
    write_tree(tmp_path / name, TREE)
    for digests in (False, True):
        check_progress(tmp_path / name, digests)


def check_progress(archive: Path, digests: bool) -> None:
    size = archive.stat().st_size
    seen = pack(archive, archive.with_name(f"out {digests}"), digests)
    reads_twice = digests or archive.name.startswith("x.tar.")
    total = 2 * size if reads_twice else size
    done = [state[2] for state in seen]
    assert done == sorted(done)
    assert {state[3] for state in seen} == {total}
    assert seen[-1] == (FILE_COUNT, FILE_COUNT, total, total)
    listing = [state for state in seen if state[1] == 0]
    assert [state[0] for state in listing] == sorted(state[0] for state in listing)
    assert listing[-1][0] == FILE_COUNT
    if reads_twice:
        # Within the large file, before the first half is over.
        assert any(0.2 * size < state[2] < 0.8 * size for state in listing)
    else:
        assert {state[2] for state in listing} == {0}
    packing = [state for state in seen if state[1] == FILE_COUNT]
    assert any(total - 0.8 * size < state[2] < total - 0.2 * size for state in packing)


def test_a_pipe_is_copied_first(tmp_path: Path) -> None:
    write_tree(tmp_path / "x.tar.gz", TREE)
    size = (tmp_path / "x.tar.gz").stat().st_size
    os.mkfifo(tmp_path / "pipe")

    def fill() -> None:
        with (tmp_path / "x.tar.gz").open("rb") as archive, (tmp_path / "pipe").open("wb") as pipe:
            shutil.copyfileobj(archive, pipe)

    thread = threading.Thread(target=fill)
    thread.start()
    seen = pack(tmp_path / "pipe", tmp_path / "out")
    thread.join()
    done = [state[2] for state in seen]
    assert done == sorted(done)
    copying = [state for state in seen if state[3] == 0]
    assert copying == [(0, 0, bytes_done, 0) for bytes_done in done[: len(copying)]]
    assert done[len(copying) - 1] == size
    assert seen[-1] == (FILE_COUNT, FILE_COUNT, 3 * size, 3 * size)
