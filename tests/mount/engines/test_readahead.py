"""Files that are read in order are read ahead, though nobody hints.

The pack's pages are dropped before it is read, so that bytes have to come from storage.
Every other order, several readers and no order: tests/native/prefetch/readahead_test.cc.
"""

from __future__ import annotations

import hashlib
import random
from pathlib import Path

import pytest

from tests.ffrecord_file import write_folder
from tests.mount import probes
from tests.mount.command import Mount
from tests.mount.hinted_files import increase, settled
from tests.mount.makers import MakeMount
from tests.page_cache import forget_pages

COUNT = 640
NAMES = [f"{i:04d}" for i in range(COUNT)]
FILES = {name: random.Random(name).randbytes(1000 + 37 * i) for i, name in enumerate(NAMES)}
DIGESTS = {name: hashlib.sha256(content).hexdigest() for name, content in FILES.items()}
SIZE_BYTES = sum(map(len, FILES.values()))
# If a file that is being read ahead has not come after 200 ms, its reader reads it itself.
OVERTAKEN = 1.05
SHARE = 0.75

pytestmark = pytest.mark.promise("S35")


def cold(mount: MakeMount, pack: Path, listed: str = "not listed") -> Mount:
    """Mount without read-around: a busy machine pushes neighbours before it sees the order."""
    tree: Mount = mount(pack, "--read-around", "off")
    forget_pages(pack)
    if listed == "listed":
        tree.ask(probes.sizes, "d")
    return tree


def write_in_order(folder: Path) -> Path:
    """Write a pack of all files, with its records in the order of the names."""
    return write_folder(folder / "pack.ffr", {"d": dict(FILES)})


@pytest.mark.parametrize("listed", ["listed", "not listed"])
def test_single_reader_in_order_is_read_ahead(
    mount: MakeMount, tmp_path: Path, listed: str
) -> None:
    tree = cold(mount, write_in_order(tmp_path), listed)
    before = settled(tree)
    assert tree.ask(probes.misread, "d", DIGESTS, NAMES) == []
    found = increase(before, settled(tree))
    assert found["readahead.fetched"] >= SHARE * COUNT, found
    # On a busy machine reading ahead may take 200 ms: then readers read the files, too; 64 at most.
    assert COUNT <= found["checksums_verified"] <= OVERTAKEN * COUNT + 64, found
    assert found["bytes_storage"] >= SIZE_BYTES
    if listed == "listed":  # the files were pushed
        assert found["requests.read.count"] <= (1.3 - SHARE) * COUNT
    else:
        assert found["readahead.hit"] >= 0.5 * SHARE * COUNT  # readers waited for the others
    assert found["readahead.wasted_bytes"] == 0
    assert found["prefetch.fetched"] == found["prefetch.hinted"] == 0
