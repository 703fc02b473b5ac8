"""Reading ahead takes bounded memory, and gives it back."""

from __future__ import annotations

import os
import signal
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.mount import probes
from tests.mount.child import child
from tests.mount.command import Mount, wait_until
from tests.mount.hinted_files import (
    COUNT,
    DIGESTS,
    FILES,
    NAMES,
    SIZE_BYTES,
    SOON_S,
    figures,
    hinted,
    increase,
    settled,
    shuffled,
    texts,
    write_hinted_files,
)
from tests.mount.makers import MakeMount, by_both
from tests.page_cache import forget_pages

MIB = 1 << 20
CACHE_MB = 8

SERVED_BY = ["native"]
pytestmark = pytest.mark.promise("S33")


@pytest.fixture
def pack(tmp_path: Path) -> Path:
    return write_hinted_files(tmp_path)


def cold(mount: MakeMount, pack: Path, *arguments: str) -> Mount:
    tree: Mount = mount(pack, *arguments)
    forget_pages(pack)
    return tree


@by_both
@pytest.mark.promise("S15")
@pytest.mark.parametrize("listed", ["listed", "not listed"])
def test_memory_stays_inside_its_limit(mount: MakeMount, pack: Path, listed: str) -> None:
    tree = cold(mount, pack, "--cache-mb", str(CACHE_MB), "--prefetch-window", "100000,1G")
    if listed == "listed":
        tree.ask(probes.sizes, "d")
    highest = 0
    with ExitStack() as stack:
        for serial in range(8):
            stack.enter_context(hinted(tree, texts(shuffled(serial))))
        readers = [
            stack.enter_context(child(probes.misread, tree / "d", DIGESTS, shuffled(serial)))
            for serial in range(4)
        ]
        # It reads on until held bytes were seen: the mount holds pushed ones too briefly for that.
        other = stack.enter_context(
            child(probes.read_directly_until_it_fails, tree / "d", FILES, 9)
        )
        assert other.next() == "going"
        for reader in (other, *readers):
            reader.ask_next()
        while highest == 0 or not all(reader.has_answered() for reader in readers):
            highest = max(highest, figures(tree)["cache_bytes"])
            assert not other.has_answered()
        assert [reader.answer() for reader in readers] == [[]] * 4
    assert highest <= CACHE_MB * MIB


def test_memory_of_unread_hints_is_freed_after_the_ttl(mount: MakeMount, pack: Path) -> None:
    tree = cold(mount, pack, "--prefetch-ttl", "1")
    with hinted(tree, texts(NAMES)) as stream:
        wait_until(lambda: figures(tree)["prefetch.fetched"] == COUNT, "all was read ahead")
        stream.finish()  # only now: hints that nobody reads expire a second later
        wait_until(lambda: figures(tree)["cache_bytes"] == 0, "it is given back", SOON_S)
        found = settled(tree)
        assert found["prefetch.wasted_bytes"] == SIZE_BYTES
        wait_until(lambda: figures(tree)["prefetch.dropped"] == COUNT, "the hints expire", SOON_S)
    assert tree.ask(probes.misread, "d", DIGESTS, NAMES) == []
    assert settled(tree)["prefetch.hit"] == 0


def test_memory_of_a_killed_client_is_freed_at_once(mount: MakeMount, pack: Path) -> None:
    tree = cold(mount, pack)
    others = NAMES[COUNT // 2 :]
    with hinted(tree, texts(others)):
        with child(probes.hint, str(tree.path), texts(NAMES[: COUNT // 2])) as client:
            assert client.next() == "hinted"
            wait_until(lambda: figures(tree)["prefetch.fetched"] == COUNT, "all was read ahead")
            os.kill(client.pid, signal.SIGKILL)
            rest = sum(len(FILES[name]) for name in others)
            wait_until(
                lambda: figures(tree)["prefetch.wasted_bytes"] == SIZE_BYTES - rest,
                "it is given back",
                SOON_S,
            )
        found = settled(tree)
        assert rest <= found["cache_bytes"] < SIZE_BYTES
        assert found["prefetch.dropped"] == COUNT // 2
        before = settled(tree)
        assert tree.ask(probes.misread, "d", DIGESTS, others) == []
        assert increase(before, settled(tree))["bytes_storage"] == 0  # the others' were kept
