"""Files that are read in order are read ahead, though nobody hints; files read at random are not.

The packs' pages are dropped before they are read, so that bytes have to come from storage.
"""

from __future__ import annotations

import hashlib
import pickle
import random
import time
from collections import OrderedDict
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.ffrecord_file import INDEX_MAGIC, write_folder, write_records
from tests.mount import cached_files, probes
from tests.mount.child import child
from tests.mount.command import Mount
from tests.mount.hinted_files import increase, parts_in_turn, settled, shuffled
from tests.mount.makers import MakeMount
from tests.page_cache import forget_pages

COUNT = 640
NAMES = [f"{i:04d}" for i in range(COUNT)]
FILES = {name: random.Random(name).randbytes(1000 + 37 * i) for i, name in enumerate(NAMES)}
DIGESTS = {name: hashlib.sha256(content).hexdigest() for name, content in FILES.items()}
SIZE_BYTES = sum(map(len, FILES.values()))
READER_COUNT = 4
BATCH = 32
# A reader does not wait for what was claimed 200 ms ago and has not come: it reads that itself.
OVERTAKEN = 1.05
USELESS = 1.02
STEP_S = 0.01  # what readers do with a batch: a busy machine comes to read ahead meanwhile
# Several readers of one order come for records that are just being given to the kernel.
TWICE = 1.15

pytestmark = pytest.mark.promise("S35")


def cold(mount: MakeMount, pack: Path, listed: str = "not listed") -> Mount:
    """Without neighbours, which a busy machine pushes before it sees that readers keep an order."""
    tree: Mount = mount(pack, "--read-around", "off")
    forget_pages(pack)
    if listed == "listed":
        tree.ask(probes.sizes, "d")
    return tree


def write_in_order(folder: Path) -> Path:
    """A pack of all files; the records have the order of the names."""
    return write_folder(folder / "pack.ffr", {"d": dict(FILES)})


def read_by(tree: Mount, parts: list[list[str]], batch: int) -> dict[str, int]:
    """Let a reader each read one part, all at once, so many files at a time; what that took.

    "given_up_pages": of files that were read before; each may be asked for once more.
    """
    before = settled(tree)
    read = cached_files.misread_and_given_up_in_batches
    given_up_pages = 0
    with ExitStack() as stack:
        readers = [
            stack.enter_context(child(read, tree / "d", DIGESTS, part, batch)) for part in parts
        ]
        for _ in range(0, max(map(len, parts)), batch):
            for reader in readers:
                reader.ask_next()
            for reader in readers:
                misread, given_up = reader.answer()
                assert misread == []
                given_up_pages += sum(given_up.values())
            time.sleep(STEP_S)
    return {**increase(before, settled(tree)), "given_up_pages": given_up_pages}


def check_read_ahead(
    found: dict[str, int], listed: str, *, share: float = 0.75, useless: float = OVERTAKEN
) -> None:
    """Most of the files were read ahead, and few (`useless`) were fetched twice."""
    assert found["readahead.fetched"] >= share * COUNT
    # A claim that takes 200 ms on a busy machine is read by its reader as well; 64 at most.
    most = useless * COUNT + 64 + found["given_up_pages"]
    assert COUNT <= found["checksums_verified"] <= most, found
    assert found["bytes_storage"] >= SIZE_BYTES
    if listed == "listed":  # they were given to the kernel
        assert found["requests.read.count"] <= (1.3 - share) * COUNT
    else:
        assert found["readahead.hit"] >= 0.5 * share * COUNT  # others have waited for the same
    assert found["readahead.wasted_bytes"] == 0
    assert found["prefetch.fetched"] == found["prefetch.hinted"] == 0


LISTED = pytest.mark.parametrize("listed", ["listed", "not listed"])


@LISTED
def test_one_reader_in_order(mount: MakeMount, tmp_path: Path, listed: str) -> None:
    tree = cold(mount, write_in_order(tmp_path), listed)
    check_read_ahead(read_by(tree, [NAMES], COUNT), listed)


@LISTED
def test_several_readers_that_have_a_range_each(
    mount: MakeMount, tmp_path: Path, listed: str
) -> None:
    tree = cold(mount, write_in_order(tmp_path), listed)
    size = COUNT // READER_COUNT
    parts = [NAMES[begin : begin + size] for begin in range(0, COUNT, size)]
    check_read_ahead(read_by(tree, parts, 8), listed, share=0.6, useless=TWICE)


@LISTED
def test_several_readers_that_take_batches_in_turn(
    mount: MakeMount, tmp_path: Path, listed: str
) -> None:
    """As the workers of a loader do."""
    tree = cold(mount, write_in_order(tmp_path), listed)
    parts = parts_in_turn(NAMES, READER_COUNT, BATCH)
    check_read_ahead(read_by(tree, parts, BATCH), listed, share=0.6, useless=TWICE)


@pytest.mark.parametrize("order", ["of the listing", "of the records"])
def test_both_orders_where_they_differ(mount: MakeMount, tmp_path: Path, order: str) -> None:
    in_file = shuffled(7, NAMES)
    numbers = OrderedDict((name, in_file.index(name)) for name in NAMES)
    index = INDEX_MAGIC + pickle.dumps(OrderedDict(d=numbers))
    records = [*(FILES[name] for name in in_file), index]
    tree = cold(mount, write_records(tmp_path / "pack.ffr", records))
    names = NAMES if order == "of the listing" else in_file
    check_read_ahead(read_by(tree, [names], COUNT), "not listed")


@pytest.mark.long
@pytest.mark.parametrize("reader_count", [1, READER_COUNT])
@pytest.mark.parametrize("file_count", [300, 2000])
def test_reading_at_random_reads_nothing_for_nothing(
    mount: MakeMount, tmp_path: Path, file_count: int, reader_count: int
) -> None:
    names = [f"{i:04d}" for i in range(file_count)]
    files = {name: random.Random(name).randbytes(1000 + 13 * i) for i, name in enumerate(names)}
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    pack = write_folder(tmp_path / "pack.ffr", {"d": dict(files)})
    tree = cold(mount, pack)
    order = shuffled(file_count + reader_count, names)
    before = settled(tree)
    with ExitStack() as stack:
        readers = [
            stack.enter_context(child(probes.misread, tree / "d", digests, part))
            for part in (order[serial::reader_count] for serial in range(reader_count))
        ]
        for reader in readers:
            reader.ask_next()
        assert [reader.answer() for reader in readers] == [[]] * reader_count
    found = increase(before, settled(tree))
    assert found["bytes_page_cache"] == 0
    assert found["checksums_verified"] <= USELESS * file_count, found
