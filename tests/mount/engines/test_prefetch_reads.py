"""With hints, readers get the right bytes, and nobody is disturbed.

False hints, and clients that break the rules: tests/native/prefetch.
"""

from __future__ import annotations

import errno
import random
import re
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.ffrecord_file import record_extents
from tests.mount import cached_files, probes
from tests.mount.child import child
from tests.mount.command import ENGINES, Mount, wait_until
from tests.mount.hinted_files import (
    COUNT,
    DIGESTS,
    FILES,
    NAMES,
    hint_all,
    hinted,
    settled,
    shuffled,
    texts,
    write_hinted_files,
)
from tests.mount.makers import MakeMount
from tests.page_cache import forget_pages

SERVED_BY = ENGINES
READER_COUNT = 4
CLIENT_COUNT = 10

pytestmark = pytest.mark.promise("S32")


@pytest.fixture
def tree(hinted_tree: Mount) -> Mount:
    return hinted_tree


def check_all_can_be_read(tree: Mount, names: list[str] = NAMES) -> None:
    assert tree.ask(probes.misread, "d", DIGESTS, names) == []


@pytest.mark.promise("S13")
@pytest.mark.parametrize("listed", ["listed", "not listed"])
def test_many_clients_and_many_readers(tree: Mount, listed: str) -> None:
    """The orders of all clients and readers differ; clients end in every way."""
    if listed == "listed":
        tree.ask(probes.sizes, "d")
    with ExitStack() as stack:
        readers = [
            stack.enter_context(child(probes.misread, tree / "d", DIGESTS, shuffled(-serial)))
            for serial in range(READER_COUNT)
        ]
        streams = [
            stack.enter_context(hinted(tree, texts(shuffled(serial))))
            for serial in range(CLIENT_COUNT)
        ]
        for reader in readers:
            reader.ask_next()
        for serial, stream in enumerate(streams):
            if serial % 3 == 0:
                stream.finish()
            elif serial % 3 == 1:
                stream.close()
            else:
                stream.send([f"{record}".encode() for record in range(COUNT)])
        assert [reader.answer() for reader in readers] == [[]] * READER_COUNT
    check_all_can_be_read(tree)
    assert settled(tree)["checksums_failed"] == 0


@pytest.mark.promise("S13")
def test_pushed_bytes_are_right_in_every_way_of_reading(tree: Mount) -> None:
    tree.ask(probes.sizes, "d")
    hint_all(tree, texts(NAMES))
    assert settled(tree)["prefetch.pushed"] > 0.9 * COUNT
    for name in NAMES[100:108]:  # of every size
        for probe in (probes.read_direct, probes.read_mapped, probes.read):
            assert tree.ask(probe, f"d/{name}") == FILES[name]
    check_all_can_be_read(tree)


# Bytes that differ from the packed ones.


def spoil(pack: Path, name: str) -> None:
    """Overwrite the whole record."""
    offset, size = record_extents(pack)[NAMES.index(name)]
    with pack.open("r+b") as file:
        file.seek(offset)
        file.write(random.Random("spoilt").randbytes(size))


def check_one_is_bad(tree: Mount, bad: str) -> None:
    rest = [name for name in NAMES if name != bad]
    with ExitStack() as stack:
        readers = [
            stack.enter_context(child(probes.misread, tree / "d", DIGESTS, shuffled(serial, rest)))
            for serial in range(READER_COUNT)
        ]
        for reader in readers:
            reader.ask_next()
        for _ in range(3):
            assert tree.ask(probes.errno_of, f"d/{bad}", "read") == errno.EIO
        assert [reader.answer() for reader in readers] == [[]] * READER_COUNT
    assert tree.count_logged(f"cannot read d/{bad}") == 1


@pytest.mark.promise("S10", "S11")
@pytest.mark.parametrize("listed", ["listed", "not listed"])
def test_damaged_record_among_the_hints(mount: MakeMount, tmp_path: Path, listed: str) -> None:
    pack = write_hinted_files(tmp_path)
    bad = "0125"
    spoil(pack, bad)
    tree = mount(pack)
    forget_pages(pack)
    if listed == "listed":
        tree.ask(probes.sizes, "d")
    with hinted(tree, texts(NAMES)):
        settled(tree)
        assert not re.findall(f"cannot read d/{bad}", tree.log())  # nobody has read it
        tree.expect_log(f"cannot read d/{bad}: .*record 125 .*checksum mismatch")
        check_one_is_bad(tree, bad)


@pytest.mark.promise("S12")
@pytest.mark.parametrize("listed", ["listed", "not listed"])
def test_record_overwritten_after_it_was_read_ahead(tree: Mount, listed: str) -> None:
    """Readers get the bytes that were verified when they were read ahead."""
    if listed == "listed":
        tree.ask(probes.sizes, "d")
    hint_all(tree, texts(NAMES))
    wait_until(lambda: settled(tree)["prefetch.fetched"] == COUNT, "all are read ahead")
    spoilt = NAMES[::10]
    for name in spoilt:
        spoil(tree.pack, name)
    for name in spoilt:
        number, digest, given_up = tree.ask(cached_files.read_and_given_up, f"d/{name}")
        if number:  # the kernel had the right bytes, but it dropped them and has to ask again
            assert (number, given_up > 0) == (errno.EIO, True)
            tree.expect_log(f"cannot read d/{name}: .*checksum mismatch")
        else:
            assert digest == DIGESTS[name]
    check_all_can_be_read(tree, [name for name in shuffled(2) if name not in spoilt])
