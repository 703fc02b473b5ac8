"""While programs read small files in no order, the mount also pushes their neighbours."""

from __future__ import annotations

import hashlib
import random
from pathlib import Path

import pytest

from tests.ffrecord_file import write_folder
from tests.mount import probes
from tests.mount.child import child
from tests.mount.command import ENGINES, Mount, wait_until
from tests.mount.hinted_files import figures, increase, settled, shuffled
from tests.mount.makers import MakeMount, by_native
from tests.page_cache import forget_pages

SERVED_BY = ENGINES
COUNT = 3000
NAMES = [f"{i:04d}" for i in range(COUNT)]
FILES = {name: random.Random(name).randbytes(1000 + 2 * i) for i, name in enumerate(NAMES)}
DIGESTS = {name: hashlib.sha256(content).hexdigest() for name, content in FILES.items()}
SIZE_BYTES = sum(map(len, FILES.values()))

pytestmark = pytest.mark.promise("S75")


@pytest.fixture
def pack(tmp_path: Path) -> Path:
    return write_folder(tmp_path / "pack.ffr", {"d": dict(FILES)})


def wait_for_limit(tree: Mount) -> None:
    wait_until(lambda: figures(tree)["pushed_limit_bytes"] > 0, "what may be pushed")


def listed(mount: MakeMount, pack: Path, *options: str) -> Mount:
    """Mount and list, so that the kernel knows all names; wait until the mount may push."""
    tree: Mount = mount(pack, *options)
    tree.ask(probes.sizes, "d")
    wait_for_limit(tree)
    return tree


def read(tree: Mount, names: list[str]) -> dict[str, int]:
    """Read these, check their bytes, and return the increase of the mount's figures."""
    before = settled(tree)
    with child(probes.misread, tree / "d", DIGESTS, names) as reader:
        reader.ask_next()
        assert reader.answer() == []
    return increase(before, settled(tree))


@pytest.mark.parametrize("cached", [True, False])
def test_epoch_in_random_order(mount: MakeMount, pack: Path, cached: bool) -> None:
    tree = listed(mount, pack)
    if not cached:
        forget_pages(pack)
    found = read(tree, shuffled(1, NAMES))
    # READs may outrun the pushes on a busy machine, but not all of them.
    assert found["read_around.pushed"] > 0
    assert found["requests.read.count"] < COUNT
    assert found["read_around.given_up"] == 0
    assert found["read_around.read_bytes"] <= 2 * SIZE_BYTES


@by_native
def test_without_a_listing_neighbours_fill_the_page_cache(mount: MakeMount, pack: Path) -> None:
    tree: Mount = mount(pack)
    wait_for_limit(tree)
    forget_pages(pack)
    found = read(tree, shuffled(2, NAMES))
    assert found["read_around.read_bytes"] > 0
    assert found["bytes_page_cache"] > 0  # READs that found it there


@by_native
def test_read_around_off_reads_no_neighbours(mount: MakeMount, pack: Path) -> None:
    tree = listed(mount, pack, "--read-around", "off")
    found = read(tree, shuffled(4, NAMES))
    assert found["read_around.read_bytes"] == 0
    assert found["requests.read.count"] >= COUNT


def test_read_around_on_pushes_after_the_first_read(mount: MakeMount, pack: Path) -> None:
    tree = listed(mount, pack, "--read-around", "on")
    found = read(tree, [NAMES[COUNT // 2]])
    assert found["read_around.pushed"] > 100


@by_native
def test_read_around_with_several_packs(mount: MakeMount, tmp_path: Path) -> None:
    half = COUNT // 2
    parts = [dict(list(FILES.items())[:half]), dict(list(FILES.items())[half:])]
    packs = [
        write_folder(tmp_path / f"{number}.ffr", {"d": part}) for number, part in enumerate(parts)
    ]
    tree: Mount = mount(*packs)
    tree.ask(probes.sizes, "d")
    wait_for_limit(tree)
    found = read(tree, shuffled(5, NAMES))
    assert found["read_around.pushed"] > 0
    assert found["requests.read.count"] < COUNT
