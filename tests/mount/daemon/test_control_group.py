"""A mount in a control group, as in a container or a batch job, stays within its memory."""

from __future__ import annotations

import hashlib
import random
import re
import time
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ffrfs.mount.config.config import make_config
from ffrfs.mount.config.request import make_request
from ffrfs.mount.daemon import memory_limit
from ffrfs.mount.daemon.control_group import memory_limit_bytes, unified_group
from ffrfs.mount.daemon.memory_limit import MemoryLimit
from tests.ffrecord_file import write_folder
from tests.mount import memory_loads, probes
from tests.mount.child import child
from tests.mount.command import Mount, ffrfs
from tests.mount.control_groups import MIB, joining, memory_group
from tests.mount.hinted_files import figures
from tests.mount.makers import MakeMount, PackTree
from tests.page_cache import drop_pages

LOAD_S = 1.2


def limit_mb(tree: Mount) -> float:
    limit_bytes: int = tree.statistics()["cache_limit_bytes"]
    return limit_bytes / MIB


@pytest.mark.promise("S52")
def test_mount_stays_within_the_memory_of_its_group(
    new_mount: MakeMount, root_user: None, tmp_path: Path
) -> None:
    chance = random.Random(1)
    pack = write_folder(
        tmp_path / "large.ffr",
        {
            "blocks": {str(i): chance.randbytes(3_900_000 - 1000 * i) for i in range(8)},
            "large": {str(i): chance.randbytes(12_000_000 + i) for i in range(3)},
            "small": {f"{i:04d}": b"%d" % i * 500 for i in range(1000)},
        },
    )
    tree = new_mount(pack)
    with memory_group() as group, ExitStack() as stack:
        stack.callback(tree.close)
        group.limit(112)
        done = tree.mount(prefix=joining(group.folder))
        assert (done.status, done.err) == (0, "")
        assert 8 <= limit_mb(tree) < 112 * 7 / 8
        tree.hint_too_large("large/0")
        clients = stack.enter_context(child(memory_loads.flood, str(tree.path), 40, 1000))
        readers = [
            stack.enter_context(child(memory_loads.read_at_random, tree / folder, 16, 1, LOAD_S))
            for folder in ("blocks", "large", "blocks", "large")
        ]
        for one in (clients, *readers):
            one.ask_next()
        while not all(one.has_answered() for one in readers):
            drop_pages(pack)
            time.sleep(0.01)
        assert all(reader.answer() for reader in readers)
        assert group.kills() == 0
        assert tree.is_served


@pytest.mark.long
@pytest.mark.promise("S75", "S76")
def test_pushed_pages_do_not_get_the_mount_killed(
    new_mount: MakeMount, root_user: None, tmp_path: Path
) -> None:
    """The pack has twice as much data as the group may hold, which takes some seconds."""
    names = [f"{i:04d}" for i in range(2500)]
    files = {name: random.Random(name).randbytes(100_000) for name in names}
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    tree = new_mount(write_folder(tmp_path / "pack.ffr", {"d": dict(files)}))
    with memory_group() as group, ExitStack() as stack:
        stack.callback(tree.close)
        group.limit(128)
        done = tree.mount("--read-around", "on", prefix=joining(group.folder))
        assert done.status == 0
        assert ffrfs("warm", tree.path).status == 0
        assert 0 < figures(tree)["warm.left_out"] < len(names)
        random.Random(1).shuffle(names)
        with child(probes.misread, tree / "d", digests, names) as reader:
            reader.ask_next()
            assert reader.answer() == []
        assert figures(tree)["pushed_limit_bytes"] <= 32 * MIB
        assert group.kills() == 0


@pytest.mark.promise("S52")
def test_limit_of_the_group_applies_if_it_is_smaller(
    new_mount: MakeMount, root_user: None, pack_tree: PackTree
) -> None:
    tree = new_mount(pack_tree({"a": b"content"}))
    tree.expect_log("--max-memory 512M has no effect: the control group may have 160M of memory")
    with memory_group() as group, ExitStack() as stack:
        stack.callback(tree.close)
        group.limit(160)
        done = tree.mount("--max-memory", "512M", prefix=joining(group.folder))
        assert done.status == 0
        assert done.err == (
            "ffrfs: --max-memory 512M has no effect: the control group may have 160M of memory\n"
        )
        assert 8 <= limit_mb(tree) < 160 * 7 / 8
        why = "the limit of its control group leaves no more\n"
        assert why in ffrfs("stats", tree.path).out


@pytest.mark.promise("S52")
def test_mount_works_in_a_group_that_is_too_small(
    new_mount: MakeMount, root_user: None, pack_tree: PackTree
) -> None:
    tree = new_mount(pack_tree({"a": b"content"}))
    tree.expect_log("the control group may have 60M of memory, and this mount may need")
    with memory_group() as group, ExitStack() as stack:
        stack.callback(tree.close)
        group.limit(60)
        done = tree.mount(prefix=joining(group.folder))
        assert done.status == 0
        assert len(done.err.splitlines()) == 1
        assert limit_mb(tree) == 8


@pytest.mark.promise("S52")
@pytest.mark.parametrize("limit_mb", [60, 100])
def test_advised_limit_of_a_group_is_the_least_that_suffices(
    limit_mb: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = make_config(packs=["/x.ffr"], mountpoint="/m", settings={})
    names = ("deaths", "worker_pid", "fetcher_pid", "may_use_rings")
    engine: Any = SimpleNamespace(**dict.fromkeys(names))

    def notices(limit_mb: int) -> list[str]:
        monkeypatch.setattr(memory_limit, "memory_limit_bytes", lambda: limit_mb * MIB)
        return MemoryLimit(make_request(asked), engine, base_bytes=32 * MIB).notices()

    (notice,) = notices(limit_mb)
    found = re.fullmatch(
        rf"the control group may have {limit_mb}M of memory, "
        r"and this mount may need (\d+)M under load",
        notice,
    )
    assert found
    enough_mb = int(found[1])
    assert notices(enough_mb) == []
    assert notices(enough_mb - 1) != []


def told(proc: Path, cgroup: str, mountinfo: str) -> str:
    """Write the files that the kernel would show for a process; return their folder."""
    proc.mkdir()
    (proc / "cgroup").write_text(cgroup)
    (proc / "mountinfo").write_text(mountinfo)
    return str(proc)


def write_limit(folder: Path, name: str, text: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)


def test_smallest_limit_of_the_parent_groups_applies(tmp_path: Path) -> None:
    top = tmp_path / "cg"
    mounts = f"30 23 0:26 / {top} rw,nosuid shared:4 - cgroup2 cgroup2 rw\n"
    proc = told(tmp_path / "self", "0::/pods/pod1/box\n", mounts)
    top.mkdir()
    assert memory_limit_bytes(proc) is None
    write_limit(top / "pods/pod1/box", "memory.max", "max\n")
    assert memory_limit_bytes(proc) is None
    write_limit(top / "pods/pod1", "memory.max", "104857600\n")
    write_limit(top / "pods", "memory.max", "209715200\n")
    assert memory_limit_bytes(proc) == 100 * MIB
    write_limit(top / "pods/pod1/box", "memory.max", "?")
    assert memory_limit_bytes(proc) == 100 * MIB


def test_container_that_sees_its_own_group_as_the_root(tmp_path: Path) -> None:
    top = tmp_path / "cg"
    write_limit(top, "memory.max", "104857600\n")
    # With a cgroup namespace; and without one, where only that group is mounted.
    for serial, (root, path) in enumerate((("/", "/"), ("/docker/1", "/docker/1"))):
        mounts = f"30 23 0:26 {root} {top} ro - cgroup2 cgroup rw\n"
        proc = told(tmp_path / str(serial), f"0::{path}\n", mounts)
        assert memory_limit_bytes(proc) == 100 * MIB
        group = unified_group(proc)
        assert group is not None
        assert group.folder == str(top)
    proc = told(tmp_path / "outside", "0::/../other\n", f"30 23 0:26 / {top} ro - cgroup2 c rw\n")
    assert memory_limit_bytes(proc) is None


def test_memory_hierarchy_of_cgroup_v1(tmp_path: Path) -> None:
    top = tmp_path / "memory"
    groups = "9:name=systemd:/\n5:cpu,memory:/job\n0::/\n"
    mounts = f"40 23 0:30 / {top} rw - cgroup cgroup rw,cpu,memory\n"
    proc = told(tmp_path / "self", groups, mounts)
    write_limit(top, "memory.limit_in_bytes", "9223372036854771712\n")
    assert memory_limit_bytes(proc) is None
    write_limit(top / "job", "memory.limit_in_bytes", "104857600\n")
    assert memory_limit_bytes(proc) == 100 * MIB


def test_no_control_groups(tmp_path: Path) -> None:
    assert memory_limit_bytes(str(tmp_path)) is None
