"""A hinted file is there when it is read: in the page cache, or in the mount's memory.

All files together fit into the window and into that memory, unless a test says otherwise.
"""

from __future__ import annotations

import hashlib
import mmap
from pathlib import Path

import pytest

from tests.ffrecord_file import write_folder
from tests.mount import cached_files, probes
from tests.mount.command import Mount
from tests.mount.hinted_files import (
    COUNT,
    DIGESTS,
    NAMES,
    SIZE_BYTES,
    hint_all,
    hinted,
    increase,
    settled,
    shuffled,
    texts,
)
from tests.mount.makers import MakeMount
from tests.page_cache import forget_pages

pytestmark = pytest.mark.promise("S34")

BATCH = 16
ORDERS = {"in order": NAMES, "shuffled": shuffled(1)}


@pytest.fixture
def tree(hinted_tree: Mount) -> Mount:
    return hinted_tree


def read_all(tree: Mount, names: list[str]) -> dict[str, int]:
    """Read these; return the increase of the figures, and the pages dropped before ("given_up")."""
    before = settled(tree)
    misread, given_up = tree.ask(cached_files.misread_and_given_up, "d", DIGESTS, names)
    assert misread == []
    return {**increase(before, settled(tree)), "given_up": sum(given_up.values())}


@pytest.mark.parametrize("order", ORDERS)
def test_hinted_files_with_known_inodes_need_no_requests(tree: Mount, order: str) -> None:
    names = ORDERS[order]
    tree.ask(probes.sizes, "d")
    start = settled(tree)
    with hinted(tree, texts(names)):
        ahead = increase(start, settled(tree))
        assert ahead["prefetch.hinted"] == ahead["prefetch.fetched"] == COUNT
        assert ahead["prefetch.pushed"] >= 0.95 * COUNT
        assert ahead["bytes_storage"] >= SIZE_BYTES
        assert ahead["checksums_verified"] == COUNT  # each once
        found = read_all(tree, names)
        given_up = found["given_up"]
        assert 0 < found["requests.read.count"] <= 0.05 * COUNT + given_up
        assert found["bytes_storage"] == 0 or given_up
    found = increase(start, settled(tree))
    # The mount does not learn of the files read after its last READ.
    assert 0.75 * COUNT - given_up <= found["prefetch.hit"] <= COUNT
    assert found["prefetch.late"] <= given_up
    assert found["prefetch.dropped"] == 0
    assert found["prefetch.wasted_bytes"] == 0
    assert found["cache_bytes"] == 0 or given_up


@pytest.mark.parametrize("order", ORDERS)
def test_hinted_files_with_unknown_inodes_stay_in_memory(tree: Mount, order: str) -> None:
    names = ORDERS[order]
    start = settled(tree)
    with hinted(tree, texts(names)):
        ahead = increase(start, settled(tree))
        assert ahead["prefetch.hinted"] == ahead["prefetch.fetched"] == COUNT
        assert ahead["prefetch.pushed"] == 0
        assert ahead["bytes_storage"] >= SIZE_BYTES
        assert ahead["checksums_verified"] == COUNT  # each once
        assert ahead["cache_bytes"] >= SIZE_BYTES
        found = read_all(tree, names)
        assert found["bytes_memory"] == SIZE_BYTES
        assert found["bytes_storage"] == found["bytes_page_cache"] == 0
    found = increase(start, settled(tree))
    assert found["prefetch.hit"] == COUNT
    assert found["prefetch.late"] == found["prefetch.dropped"] == 0
    assert found["prefetch.wasted_bytes"] == found["cache_bytes"] == 0


def test_records_of_several_megabytes(mount: MakeMount, tmp_path: Path) -> None:
    """Each record is verified and pushed as a whole."""
    files = {str(i): bytes([i]) * (5 << 20) for i in range(3)}
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    pack = write_folder(tmp_path / "large.ffr", {"d": dict(files)})
    tree = mount(pack)
    forget_pages(pack)
    tree.ask(probes.sizes, "d")
    hint_all(tree, texts(files))
    before = settled(tree)
    assert before["prefetch.pushed"] == len(files)
    had = tree.ask(cached_files.pages_had, "d", list(files))
    assert set(had.values()) <= {(5 << 20) // mmap.PAGESIZE}
    assert tree.ask(probes.misread, "d", digests, list(files)) == []
