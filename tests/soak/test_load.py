"""Many readers at once on two cores get right bytes, and the mount keeps to its memory."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ffrfs.mount.engines.worker import PATH_VARIABLE
from tests.hostile.conftest import check_nothing_left
from tests.mount.command import WAYS, Mount, ffrfs
from tests.soak.hints import hint_too_large, hinting
from tests.soak.load import check_bytes, load
from tests.soak.scale import DURATION_S, IS_LONG, PACK_MB, READERS, TEST_TIMEOUT_S

CACHE_MB = 32
# Memory of daemon and worker beside the cache: programs, libraries, stacks, request buffers, and
# blocks on their way to a reader.
PROCESS_MB = {"native": 75, "uring": 80, "pyfuse3": 100}
HINTERS = 3

MakeMount = Callable[[Path], Mount]

pytestmark = [
    pytest.mark.timeout(TEST_TIMEOUT_S),
    pytest.mark.usefixtures("two_cores"),
    pytest.mark.parametrize("engine", WAYS, indirect=True),
]


@pytest.fixture
def tree(new_mount: MakeMount, pack_checkable: Callable[[int], Path]) -> Mount:
    mount = new_mount(pack_checkable(PACK_MB))
    done = mount.mount("--cache-mb", str(CACHE_MB))
    assert (done.status, done.err) == (0, "")
    return mount


@pytest.mark.promise("S13", "S15", "S32", "S33")
@pytest.mark.parametrize("hinter_count", [0, HINTERS] if IS_LONG else [HINTERS])
def test_every_byte_is_right_in_bounded_memory(tree: Mount, hinter_count: int) -> None:
    if hinter_count:
        hint_too_large(tree)
    with (
        hinting(tree, hinter_count, DURATION_S) as hinters,
        load(tree, READERS, DURATION_S, drop=0.8) as readers,
    ):
        results = readers.results(DURATION_S + 60)
        assert all(hinter.answer(60) > 0 for hinter in hinters)
    assert {result["errno"] for result in results} == {0}
    figures = check_bytes(results)
    peak_mb = tree.peak_memory_mb()
    print(f"{tree.engine}: {DURATION_S:.0f} s, {figures}, peak memory {peak_mb:.0f} MB")
    if PATH_VARIABLE not in os.environ:  # a sanitizer's shadow memory would count, too
        assert peak_mb < CACHE_MB + PROCESS_MB[tree.engine]
    assert ffrfs("umount", tree.path).status == 0
    check_nothing_left(tree)
