"""The cache of a mount is small while memory is short, and grows back afterwards."""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ffrfs.mount.daemon.pressure import SYSTEM_FILE, WATCH_VARIABLE, Pressure
from tests.mount import probes
from tests.mount.command import TIMEOUT_S, Mount, ffrfs, wait_until
from tests.mount.control_groups import (
    UNIFIED,
    MemoryGroup,
    joining,
    legacy_memory_group,
    memory_group,
    new_groups,
)
from tests.mount.hinted_files import (
    DIGESTS,
    NAMES,
    figures,
    hinted,
    settled,
    texts,
    write_hinted_files,
)
from tests.mount.makers import MakeMount, by_both
from tests.page_cache import forget_pages

MIB = 1 << 20
CALM, SOME, HIGH = 0.0, 5.0, 43.21
SHORT_MB, MOUNT_MB = 24, 56
# Reads more mapped pages, again and again, than its group may have.
THRASH = """
import mmap, os, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
memory = mmap.mmap(fd, 0, prot=mmap.PROT_READ)
while True:
    for offset in range(0, len(memory), 4096):
        memory[offset]
"""

pytestmark = pytest.mark.promise("S53")


def tell(file: Path, percent: float) -> None:
    """Write `file` as the kernel would."""
    rest = "avg60=0.00 avg300=0.00 total=0"
    text = f"some avg10={percent:.2f} {rest}\nfull avg10=0.00 {rest}\n"
    file.write_text(text)  # the same file: the daemon has it open


@pytest.fixture
def pressure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "memory.pressure"
    tell(file, CALM)
    monkeypatch.setenv(WATCH_VARIABLE, str(file))
    return file


def limit_mb(tree: Mount) -> float:
    limit_bytes: int = tree.statistics()["cache_limit_bytes"]
    return limit_bytes / MIB


@by_both
@pytest.mark.long
def test_cache_shrinks_and_grows_back(mount: MakeMount, pressure: Path, tmp_path: Path) -> None:
    """A cache that has shrunk grows back after some seconds without pressure."""
    pack = write_hinted_files(tmp_path)
    tree = mount(pack, "--cache-mb", "64")
    forget_pages(pack)
    assert limit_mb(tree) == 64
    with hinted(tree, texts(NAMES)):
        held_bytes = settled(tree)["cache_bytes"]
        assert held_bytes > 4 * MIB  # the client lives, so only pressure can drop this
        tell(pressure, HIGH)
        wait_until(lambda: limit_mb(tree) <= 32, "it shrinks")
        tell(pressure, SOME)
        wait_until(lambda: tree.statistics()["memory_pressure"] == SOME, "it is told")
        small_mb = limit_mb(tree)
        assert small_mb in (32, 16, 8)
        why = f" {small_mb:.1f} MiB, less than the 64.0 MiB asked for: memory is short\n"
        assert why in ffrfs("stats", tree.path).out
        tree.checked(
            1, f": memory is short, and its cache has shrunk (see ffrfs stats {tree.path})"
        )
        found = figures(tree)
        assert found["cache_bytes"] <= small_mb * MIB / 8
        assert found["prefetch.wasted_bytes"] > 0
        assert tree.ask(probes.misread, "d", DIGESTS, NAMES) == []
        assert limit_mb(tree) == small_mb  # some pressure: it neither shrinks nor grows
        tell(pressure, CALM)
        wait_until(lambda: limit_mb(tree) >= small_mb + 8, "it grows back")
    assert "memory is short (pressure 43.21 %)" in tree.log()


def test_damaged_pressure_values_are_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "pressure"
    monkeypatch.setenv(WATCH_VARIABLE, str(file))
    missing = Pressure()
    assert (missing.path, missing.percent()) == (None, None)
    file.write_bytes(b"")
    source = Pressure()
    try:
        chance = random.Random(5)
        good = b"some avg10=12.50 avg60=1.00 avg300=0.10 total=99\n"
        assert source.percent() is None
        for _ in range(500):
            damaged = bytearray(good)
            damaged[chance.randrange(len(good))] = chance.randrange(256)
            file.write_bytes(damaged)
            percent = source.percent()
            assert percent is None or 0 <= percent < 1000
        for text in (b"full avg10=50.00 ", b"some avg10=-1.00 ", b"some avg10=1e9 ", b"\0" * 9000):
            file.write_bytes(text)
            assert source.percent() is None
        file.write_bytes(good)
        assert source.percent() == 12.5
        os.truncate(file, 0)
        assert source.percent() is None
    finally:
        source.close()
        source.close()
    assert source.percent() is None


def test_null_device_turns_pressure_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(WATCH_VARIABLE, os.devnull)
    source = Pressure()
    assert source.percent() is None
    source.close()


def test_pressure_is_read_from_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    if not os.access(SYSTEM_FILE, os.R_OK):
        pytest.skip("this kernel does not tell memory pressure")
    monkeypatch.delenv(WATCH_VARIABLE, raising=False)
    source = Pressure()
    percent = source.percent()
    source.close()
    assert percent is not None
    assert 0 <= percent <= 100


@contextlib.contextmanager
def groups_short_of_memory() -> Iterator[tuple[Path, MemoryGroup]]:
    """Yield a group whose pressure the kernel tells, for the mount, and a group to make short.

    They are the same, unless version 1 limits memory, which tells no pressure.
    """
    with memory_group() as short:
        if legacy_memory_group() is None:
            yield short.folder, short
            return
        home = UNIFIED[0] / f"ffrfs-test-{os.getpid()}"
        with new_groups(home):
            yield home, short


@pytest.mark.long
def test_real_shortage_in_a_control_group(
    new_mount: MakeMount, root_user: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(WATCH_VARIABLE, raising=False)
    pack = write_hinted_files(tmp_path)
    large = tmp_path / "large"
    large.write_bytes(random.Random(1).randbytes(64 * MIB))
    forget_pages(large)  # a page counts for the group that reads it first
    tree = new_mount(pack)
    with groups_short_of_memory() as (home, short):
        try:
            done = tree.mount(prefix=joining(home))
            assert (done.status, done.err) == (0, "")
            assert limit_mb(tree) == 256
            short.limit(SHORT_MB if home != short.folder else SHORT_MB + MOUNT_MB)
            thrash = subprocess.Popen(
                [*joining(home, short.folder), sys.executable, "-c", THRASH, large],
                start_new_session=True,
            )
            try:
                wait_until(lambda: limit_mb(tree) < 256, "it shrinks")
                wait_until(lambda: tree.statistics()["memory_pressure"] >= 10, "it is short")
            finally:
                thrash.kill()
                thrash.wait(TIMEOUT_S)
            assert tree.ask(probes.misread, "d", DIGESTS, NAMES) == []
        finally:
            tree.close()
