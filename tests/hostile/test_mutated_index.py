"""Mapped indexes that were changed at random and have right checksums: each question gets a
refusal, EIO or bytes of a record; nothing crashes, hangs, or grows with an index's claims.

A test run has some hundreds, or thousands with FFRFS_SOAK. FFRFS_SOAK_SEED repeats them.
"""

from __future__ import annotations

import errno
import random
import re
from pathlib import Path

import pytest

from tests.hostile.conftest import MakeMount, check_nothing_left
from tests.hostile.index_cases import SLOTS, TREE
from tests.hostile.index_mutations import FOLDERS, Mutator, forest, slots_below
from tests.hostile.index_walk import Look, looks
from tests.hostile.pack_readers import Answers, Asked, ask_mount, ask_python
from tests.index_file import Index, Link, Tree, indexed_pack, plain_pack, walk, write_sidecar
from tests.mount.child import Child, ask, child
from tests.mount.command import ENGINES, ffrfs
from tests.soak.scale import IS_LONG, TEST_TIMEOUT_S

COUNT = 5000 if IS_LONG else 100
MOUNT_COUNT = 50 if IS_LONG else 2
MUTATIONS_MAX = 4
MOUNTED_MUTATIONS = 60
TIMEOUT_S = 60.0  # for one pack, on a busy machine
MEMORY_MAX_MB = 150  # an interpreter with NumPy and the core; no index here has 100 KB
# Longer sections may add some slots.
SLOTS_MAX = SLOTS + 500 * MUTATIONS_MAX

pytestmark = pytest.mark.timeout(TEST_TIMEOUT_S)


def write_mutated(folder: Path, order: random.Random, count: int) -> list[Path]:
    """Write mutated packs, some with the index in the pack, some with a sidecar."""
    paths = []
    for number in range(count):
        path = folder / f"{number}.ffr"

        def spoil(index: Index) -> None:
            Mutator(order)(index, order.randint(1, MUTATIONS_MAX))

        if order.random() < 0.8:
            path.write_bytes(indexed_pack(TREE, spoil))
        else:
            path.write_bytes(plain_pack(TREE))
            write_sidecar(path, TREE, spoil)
        paths.append(path)
    return paths


def records_of(tree: Tree) -> set[bytes]:
    return {bytes(record) for record in walk(tree).records}


def peak_memory_mb(process: Child) -> float:
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(re.findall(r"VmHWM:\s*(\d+) kB", status)[0]) / 1024


def test_core_survives_any_index(tmp_path: Path, seed: int) -> None:
    packs = write_mutated(tmp_path, random.Random(seed), COUNT)
    with child(looks, [[str(pack)] for pack in packs], SLOTS_MAX) as process:
        for pack in packs:
            look = Look(*process.next(TIMEOUT_S))
            assert look.faults == [], pack
        assert peak_memory_mb(process) < MEMORY_MAX_MB


def test_python_survives_any_index(tmp_path: Path, seed: int) -> None:
    packs = write_mutated(tmp_path, random.Random(seed + 1), COUNT)
    asked = [(str(pack), records_of(TREE)) for pack in packs]
    with child(ask_python, asked, str(tmp_path / "out")) as process:
        for pack in packs:
            assert process.next(TIMEOUT_S) == [], pack
        assert peak_memory_mb(process) < MEMORY_MAX_MB


def untouched(tree: Tree, prefix: str = "") -> Answers:
    """Return the answers that files and links of forest()'s odd folders must give."""
    answers: Answers = {}
    for name, entry in tree.items():
        if isinstance(entry, Link):
            answers[f"readlink {prefix.encode() + name!r}"] = bytes(entry)
        elif isinstance(entry, bytes):
            answers[f"read {prefix.encode() + name!r}"] = entry
        elif prefix or int(name) % 2:
            answers |= untouched(entry, f"{prefix}{name.decode()}/")
    return answers


@pytest.mark.promise("S24", "S40")
@pytest.mark.parametrize("number", range(MOUNT_COUNT))
def test_both_engines_answer_alike_for_any_index(
    mount_as: MakeMount, tmp_path: Path, seed: int, number: int
) -> None:
    order = random.Random(f"{seed} {number}")
    tree = forest(order)
    pack = tmp_path / "pack.ffr"

    def spoil(index: Index) -> None:
        Mutator(order, slots_below(index, range(0, FOLDERS, 2)))(index, MOUNTED_MUTATIONS)

    pack.write_bytes(indexed_pack(tree, spoil))
    found: list[Answers] = []
    for engine in ENGINES:
        mount = mount_as(engine, pack)
        mount.expect_log("bad index: slot|damaged index")
        asked = Asked(*ask(ask_mount, str(mount.path), records_of(tree), timeout_s=TIMEOUT_S))
        assert asked.faults == []
        assert mount.peak_memory_mb() < MEMORY_MAX_MB
        found.append(asked.answers)
        assert mount.is_served
        assert ffrfs("umount", mount.path).status == 0
        check_nothing_left(mount)
    right = untouched(tree)
    assert {what: found[0].get(what) for what in right} == right
    assert errno.EIO in found[0].values()
    assert found[0] == found[1]
