"""`ffrfs top`: a mount at work, on a terminal and without one."""

from __future__ import annotations

import random
import re
import signal

import pytest

from ffrfs.mount.stats.stats_delta import StatsDelta
from tests.live_terminal import LiveTerminal
from tests.mount import probes
from tests.mount.command import (
    Mount,
    ffrfs,
    kill_group,
    mount_command_fails,
    start_ffrfs,
    wait_until,
)
from tests.mount.makers import MakeMount, PackTree

TREE = {f"file{i:02d}": random.Random(i).randbytes(5000) for i in range(30)}
ENTER, LEAVE = b"\x1b[?1049h\x1b[?25l\x1b[?7l", b"\x1b[?7h\x1b[?25h\x1b[?1049l"
HOME, END_OF_SCREEN = b"\x1b[H", b"\x1b[J"

pytestmark = pytest.mark.promise("S56")


@pytest.fixture
def tree(mount: MakeMount, pack_tree: PackTree) -> Mount:
    made: Mount = mount(pack_tree(dict(TREE)))
    return made


def snapshots(text: str) -> list[str]:
    return re.split(r"\n\n(?=/)", text)


def test_snapshots_without_a_terminal(tree: Mount) -> None:
    tree.ask(probes.read_all_in, "", list(TREE))
    tree.requests()
    done = ffrfs("top", "-n", "2", tree.path)
    assert (done.status, done.err) == (0, "")
    first, second = snapshots(done.out)
    head = f"{tree.path}  {tree.engine}, "
    assert first.startswith(head)
    assert "\nsince then:\n" in first
    assert re.search(r"^read +[1-9][0-9,.]* +\S+ .?s +\S+ .?s$", first, re.MULTILINE)
    assert second.startswith(head)
    assert re.search(r"\nin the last [12]\.[0-9] s:\n", second)
    assert re.search(r"^read +0\.0 +- +-$", second, re.MULTILINE)
    assert re.search(r"^served +0 bytes/s in 0 reads/s$", second, re.MULTILINE)


# How it is shown does not depend on the engine.
one_engine = pytest.mark.parametrize("engine", ["native"], indirect=True)


@one_engine
def test_without_a_terminal_it_goes_on_until_nobody_reads(tree: Mount) -> None:
    process = start_ffrfs("top", tree.path)
    try:
        assert process.stdout is not None
        heads = 0
        while heads < 3:
            line = process.stdout.readline()
            assert line
            heads += line.startswith(f"{tree.path}  ")
        process.stdout.close()
        assert process.wait(20) == 141
    finally:
        kill_group(process)


@one_engine
@pytest.mark.parametrize("end", [b"q", b"Q", b"\x03"], ids=["q", "Q", "Ctrl-C"])
def test_screen_is_filled_and_given_back(tree: Mount, end: bytes) -> None:
    with LiveTerminal("-m", "ffrfs", "top", tree.path) as terminal:
        assert terminal.read_until(ENTER) == ENTER
        terminal.read_until(str(tree.path).encode())
        terminal.read_until(b"\nin the last ")
        assert terminal.attributes() != terminal.attributes_before
        terminal.press(b"x")  # no key of ours
        terminal.read_until(b"\nin the last ")
        terminal.press(end)
        assert terminal.wait() == 0
        assert terminal.output.endswith(LEAVE)
        assert terminal.attributes() == terminal.attributes_before


@one_engine
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_signal_ends_it_and_gives_the_screen_back(tree: Mount, number: signal.Signals) -> None:
    with LiveTerminal("-m", "ffrfs", "top", tree.path) as terminal:
        terminal.read_until(END_OF_SCREEN)
        terminal.process.send_signal(number)
        assert terminal.wait() == -number
        assert terminal.output.endswith(LEAVE)
        assert terminal.attributes() == terminal.attributes_before


@one_engine
def test_stopped_it_gives_the_screen_back_until_it_goes_on(tree: Mount) -> None:
    # The kernel lets nobody stop who has no shell to go on by, so it goes on at once.
    with LiveTerminal("-m", "ffrfs", "top", tree.path) as terminal:
        terminal.read_until(END_OF_SCREEN)
        terminal.press(b"\x1a")
        terminal.read_until(LEAVE)
        assert terminal.read_until(ENTER) == ENTER
        terminal.read_until(END_OF_SCREEN)
        terminal.press(b"q")
        assert terminal.wait() == 0
        assert terminal.attributes() == terminal.attributes_before


@one_engine
def test_screen_that_changes_its_size_is_filled_anew(tree: Mount) -> None:
    with LiveTerminal("-m", "ffrfs", "top", tree.path, size=(50, 300)) as terminal:
        large = terminal.read_until(END_OF_SCREEN)
        assert b"request  " in large
        terminal.resize(5, 20)
        wait_until(lambda: fits(last_screen(terminal), 5, 20), "it is small")
        terminal.resize(50, 300)
        wait_until(lambda: b"request  " in last_screen(terminal), "it is large")
        terminal.press(b"q")
        assert terminal.wait() == 0


def last_screen(terminal: LiveTerminal) -> bytes:
    return terminal.read_until(END_OF_SCREEN).rpartition(HOME)[2]


def fits(screen: bytes, rows: int, columns: int) -> bool:
    lines = re.sub(rb"\x1b\[[A-Z]", b"", screen).split(b"\r\n")
    return len(lines) <= rows and max(map(len, lines)) <= columns


@one_engine
def test_daemon_that_dies_is_one_line_after_the_screen(tree: Mount) -> None:
    with LiveTerminal("-m", "ffrfs", "top", tree.path, size=(24, 400)) as terminal:
        terminal.read_until(END_OF_SCREEN)
        tree.signal(signal.SIGKILL)
        assert terminal.wait() == 1
        assert terminal.attributes() == terminal.attributes_before
        *_, last = terminal.output.partition(LEAVE)
    assert last.startswith(f"ffrfs: {tree.path}: ".encode())
    assert (last.count(b"\r\n"), last[-2:]) == (1, b"\r\n")


@one_engine
def test_mount_that_is_not_there_is_one_line_without_a_screen(tree: Mount) -> None:
    assert ffrfs("umount", tree.path).status == 0
    mount_command_fails(ffrfs("top", tree.path), 1, f"{tree.path}: not mounted")
    with LiveTerminal("-m", "ffrfs", "top", tree.path, size=(24, 400)) as terminal:
        assert terminal.wait() == 1
        assert terminal.output == f"ffrfs: {tree.path}: not mounted\r\n".encode()


@pytest.mark.parametrize("count", ["0", "-1", "x", "1.5", "9" * 20])
def test_count_that_is_none_is_refused(count: str) -> None:
    done = ffrfs("top", f"-n={count}", "/nowhere")
    assert done.status == 2
    assert "must be a number of at least 1" in done.err


def looks(age_s: float, buckets: list[list[float]], pid: int = 1) -> dict[str, object]:
    count = sum(count for _, count in buckets)
    return {
        **{"age_s": age_s, "daemon_pid": pid, "reads": 10 * age_s},
        "requests": {"read": {"count": count, "buckets": buckets}},
    }


def test_interval_is_what_two_looks_differ_in() -> None:
    before = looks(10, [[5.0, 100], [80.0, 1]])
    after = looks(12, [[5.0, 100], [40.0, 98], [80.0, 1], [900.0, 2]])
    interval = StatsDelta(before, after)
    times = interval.times("read")
    assert (times.per_s, times.p50_us, times.p99_us) == (50, 40.0, 900.0)
    assert (interval.time_s, interval.per_s("reads"), interval.is_since_mount) == (2, 10, False)
    assert StatsDelta(after, looks(13, [[5.0, 100]])).times("read").p50_us is None


@pytest.mark.parametrize("later", [looks(5, [[5.0, 10]]), looks(20, [[5.0, 10]], pid=2)])
def test_interval_of_another_mount_is_all_of_its_time(later: dict[str, object]) -> None:
    interval = StatsDelta(looks(10, [[5.0, 100]]), later)
    assert interval.is_since_mount
    assert interval.growth("requests", "read", "count") == 10
