"""While memory is short the cache of a mount is small, and it grows back."""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import probes
import pytest
from command import Mount, wait_until
from conftest import MakeMount
from hinted_files import DIGESTS, NAMES, figures, hinted, settled, texts, write_hinted_files
from page_cache import forget_pages

from ffrfs.mount.pressure import SYSTEM_FILE, WATCH_VARIABLE, Pressure

MIB = 1 << 20
CALM, SOME, HIGH = 0.0, 5.0, 43.21
UNIFIED = [Path("/sys/fs/cgroup/unified"), Path("/sys/fs/cgroup")]  # hybrid, or v2 alone
# Walks through more mapped pages than its group may have.
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
    """What the kernel would."""
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


def test_cache_shrinks_and_grows_back(mount: MakeMount, pressure: Path, tmp_path: Path) -> None:
    pack = write_hinted_files(tmp_path)
    tree = mount(pack, "--cache-mb", "64")
    forget_pages(pack)
    assert limit_mb(tree) == 64
    with hinted(tree, texts(NAMES)):
        held_bytes = settled(tree)["cache_bytes"]
        assert held_bytes > 4 * MIB  # the client lives: nobody else is to have dropped it
        tell(pressure, HIGH)
        wait_until(lambda: limit_mb(tree) <= 32, "it shrinks", timeout_s=5)
        tell(pressure, SOME)
        wait_until(lambda: tree.statistics()["memory_pressure"] == SOME, "it is told", 5)
        small_mb = limit_mb(tree)
        assert small_mb in (32, 16, 8)
        found = figures(tree)
        assert found["cache_bytes"] <= small_mb * MIB / 8
        assert found["prefetch.wasted_bytes"] > 0
        assert tree.ask(probes.misread, "d", DIGESTS, NAMES) == []
        assert limit_mb(tree) == small_mb  # some pressure: neither
        tell(pressure, CALM)
        wait_until(lambda: limit_mb(tree) >= small_mb + 8, "it grows back", timeout_s=5)
    assert "memory is short (pressure 43.21 %)" in tree.log()


def test_figure_is_not_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_null_device_turns_it_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(WATCH_VARIABLE, os.devnull)
    source = Pressure()
    assert source.percent() is None
    source.close()


def test_kernel_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    if not os.access(SYSTEM_FILE, os.R_OK):
        pytest.skip("this kernel does not tell memory pressure")
    monkeypatch.delenv(WATCH_VARIABLE, raising=False)
    source = Pressure()
    percent = source.percent()
    source.close()
    assert percent is not None
    assert 0 <= percent <= 100


@contextlib.contextmanager
def control_groups() -> Iterator[tuple[list[Path], list[Path]]]:
    """Which groups the mount is to join, and which a program that is to be short of memory."""
    name = f"ffrfs-test-{os.getpid()}"
    groups: list[Path] = []
    try:
        top = next(top for top in UNIFIED if (top / "cgroup.procs").exists())
        own = Path("/proc/self/cgroup").read_text()
        legacy = next((line for line in own.splitlines() if ":memory:" in line), None)
        groups.append(top / name)
        groups[0].mkdir()
        if legacy is None:
            (groups[0] / "memory.max").write_text(str(80 * MIB))
        else:
            groups.append(Path(f"/sys/fs/cgroup/memory{legacy.split(':')[2]}/{name}"))
            groups[1].mkdir()
            (groups[1] / "memory.limit_in_bytes").write_text(str(24 * MIB))
    except (OSError, StopIteration) as error:
        remove(groups)
        pytest.skip(f"control groups cannot be made here: {error}")
    try:
        yield groups[:1], groups
    finally:
        remove(groups)


def remove(groups: list[Path]) -> None:
    for group in reversed(groups):
        wait_until(lambda group=group: is_removed(group), f"{group} is empty")


def is_removed(group: Path) -> bool:
    with contextlib.suppress(OSError):  # somebody is still in it, or it was never made
        group.rmdir()
    return not group.exists()


def joining(groups: list[Path]) -> list[str]:
    """What stands before a command, to let it join them first."""
    join = "".join(f"echo $$ > {group}/cgroup.procs; " for group in groups)
    return ["sh", "-c", f'{join}exec "$@"', "sh"]


@pytest.mark.parametrize("engine", ["native"])
def test_real_shortage_in_a_control_group(
    new_mount: MakeMount, root_user: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(WATCH_VARIABLE, raising=False)
    pack = write_hinted_files(tmp_path)
    large = tmp_path / "large"
    large.write_bytes(random.Random(1).randbytes(64 * MIB))
    forget_pages(large)  # whose group they are counted in is decided when they come
    tree = new_mount(pack)
    with control_groups() as (home, short):
        try:
            done = tree.mount(prefix=joining(home))
            assert (done.status, done.err) == (0, "")
            assert limit_mb(tree) == 256
            thrash = subprocess.Popen(
                [*joining(short), sys.executable, "-c", THRASH, large], start_new_session=True
            )
            try:
                wait_until(lambda: limit_mb(tree) < 256, "it shrinks", timeout_s=15)
            finally:
                thrash.kill()
                thrash.wait(5)
            assert tree.statistics()["memory_pressure"] >= 10
            assert tree.ask(probes.misread, "d", DIGESTS, NAMES) == []
        finally:
            tree.close()
