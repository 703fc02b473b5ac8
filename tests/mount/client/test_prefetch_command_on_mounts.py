"""`ffrfs prefetch` on a real mount, which follows the hints."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.mount import cached_files, probes
from tests.mount.child import child
from tests.mount.command import (
    Mount,
    ffrfs,
    kill_group,
    mount_command_fails,
    start_ffrfs,
    wait_until,
)
from tests.mount.hinted_files import (
    COUNT,
    DIGESTS,
    FILES,
    NAMES,
    SIZE_BYTES,
    SOON_S,
    figures,
    increase,
    settled,
    shuffled,
)
from tests.mount.makers import by_both
from tests.mount.waiting import sends

MIB = 1 << 20

pytestmark = pytest.mark.promise("S32", "S33")


@pytest.fixture
def tree(hinted_tree: Mount) -> Mount:
    return hinted_tree


def check_all_is_there(tree: Mount, names: list[str]) -> None:
    """Check that the mount still holds just these files in memory after the command has ended."""
    before = settled(tree)
    assert before["prefetch.hinted"] == before["prefetch.fetched"] == len(names)
    misread, given_up = tree.ask(cached_files.misread_and_given_up, "d", DIGESTS, names)
    assert misread == []
    found = increase(before, settled(tree))
    assert found["bytes_storage"] == 0 or given_up
    assert found["prefetch.late"] <= sum(given_up.values())
    assert found["prefetch.hit"] + found["prefetch.late"] == len(names)


@by_both
def test_arguments_and_a_file_of_paths(tree: Mount, tmp_path: Path) -> None:
    first, second, *names = shuffled(1)
    listed = tmp_path / "list"
    listed.write_text("".join(f"{tree / 'd'}/{name}\n" for name in names))
    done = ffrfs("prefetch", tree.path, f"d/{first}", second, "--from", listed)
    assert (done.status, done.out, done.err) == (0, "", "")
    check_all_is_there(tree, [first, second, *names])


@contextmanager
def command(tree: Mount) -> Iterator[subprocess.Popen[bytes]]:
    """Run the command, which reads paths from a pipe."""
    process = subprocess.Popen(
        [sys.executable, "-m", "ffrfs", "prefetch", tree.path, "--from", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        kill_group(process)  # type: ignore[arg-type]  # of bytes


def write(process: subprocess.Popen[bytes], data: bytes) -> None:
    assert process.stdin is not None
    process.stdin.write(data)


@by_both
def test_command_that_is_killed_drops_its_hints(tree: Mount) -> None:
    with command(tree) as process:
        write(process, b"".join(b"%d\n" % record for record in range(COUNT)))
        wait_until(lambda: figures(tree)["prefetch.fetched"] == COUNT, "they are followed")
        process.kill()
    wait_until(lambda: figures(tree)["cache_bytes"] == 0, "they are dropped", SOON_S)
    assert settled(tree)["prefetch.dropped"] == COUNT


def test_missing_paths_are_named_and_the_other_hints_hold(tree: Mount) -> None:
    done = ffrfs("prefetch", tree.path, "absent", "d", "d/0001", "99999")
    mount_command_fails(done, 1, f"/absent: not in the mount at {tree.path}; the other hints hold")
    found = settled(tree)
    assert (found["prefetch.hinted"], found["prefetch.dropped"]) == (1, 3)
    done = ffrfs("prefetch", tree.path, "d/0001/x", "d/0002", "d/none")
    mount_command_fails(done, 1, f"/d/0001/x: not in the mount at {tree.path} (and 1 more)")


# More hints than the mount takes.


def write_numbers(path: Path, count: int) -> Path:
    path.write_text("".join(f"{i % COUNT}\n" for i in range(count)))
    return path


def test_command_waits_while_the_mount_accepts_no_more_hints(tree: Mount, tmp_path: Path) -> None:
    numbers = write_numbers(tmp_path / "list", 100_000)
    before = tree.statistics()["resident_bytes"]
    process = start_ffrfs("prefetch", tree.path, "--from", numbers)
    try:
        wait_until(lambda: figures(tree)["prefetch.hinted"] > 0, "some were taken")
        found = settled(tree)
        assert COUNT <= found["prefetch.hinted"] < 20_000
        assert found["prefetch.fetched"] == COUNT
        assert tree.statistics()["resident_bytes"] < before + 2 * SIZE_BYTES + 16 * MIB
        assert tree.ask(probes.misread, "d", DIGESTS, NAMES) == []
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=60) == ("", "ffrfs: interrupted\n")
        assert process.returncode == 130
    finally:
        kill_group(process)
    wait_until(
        lambda: figures(tree)["cache_bytes"] == 0 < figures(tree)["prefetch.dropped"],
        "they are dropped",
        SOON_S,
    )
    found = settled(tree)
    known = found["prefetch.hit"] + found["prefetch.late"] + found["prefetch.dropped"]
    # The mount does not know who reads pushed files.
    assert found["prefetch.hinted"] - found["prefetch.pushed"] <= known <= found["prefetch.hinted"]


@pytest.mark.long
def test_command_ends_when_all_hints_were_accepted(tree: Mount, tmp_path: Path) -> None:
    """A reader that reads each file again and again makes room for more hints."""
    count = 10_000
    numbers = write_numbers(tmp_path / "list", count)
    process = start_ffrfs("prefetch", tree.path, "--from", numbers)
    try:
        wait_until(lambda: figures(tree)["prefetch.hinted"] > COUNT, "some were taken")
        wait_until(lambda: sends(process.pid), "it waits")
        with child(probes.read_directly_in_turn, tree / "d", FILES) as reader:
            while process.poll() is None:
                assert reader.next() == []
        assert process.communicate(timeout=60) == ("", "")
        assert process.returncode == 0
    finally:
        kill_group(process)
    assert settled(tree)["prefetch.hinted"] == count
