"""`ffrfs top`: mounts at work, on a terminal and without one."""

from __future__ import annotations

import os
import random
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.live_terminal import LiveTerminal
from tests.mount import probes
from tests.mount.command import (
    Mount,
    ffrfs,
    kill_group,
    start_ffrfs,
    stop,
    wait_until,
)
from tests.mount.makers import AskAsUser, MakeMount, PackTree

TREE = {f"file{i:02d}": random.Random(i).randbytes(5000) for i in range(30)}
ENTER, LEAVE = b"\x1b[?1049h\x1b[?25l\x1b[?7l", b"\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l"
HOME, END_OF_SCREEN = b"\x1b[H", b"\x1b[J"

pytestmark = pytest.mark.promise("S56")


def top(*arguments: Path, size: tuple[int, int] = (24, 80)) -> LiveTerminal:
    return LiveTerminal("-m", "ffrfs", "top", *arguments, size=size)


@contextmanager
def watching(*arguments: Path, size: tuple[int, int] = (24, 80)) -> Iterator[LiveTerminal]:
    """Run top; at the end, the key q must end it without an error."""
    with top(*arguments, size=size) as terminal:
        yield terminal
        terminal.press(b"q")
        assert terminal.wait() == 0
        assert terminal.attributes() == terminal.attributes_before


def snapshots(text: str) -> list[str]:
    return re.split(r"\n\n(?=/)", text)


def test_snapshots_without_a_terminal(tree: Mount) -> None:
    tree.ask(probes.read_all_in, "", list(TREE))
    tree.requests()
    done = ffrfs("top", "-n", "2", tree.path)
    assert (done.status, done.err) == (0, "")
    first, second = snapshots(done.out)
    head = f"{tree.path}  transport dev, "
    assert first.startswith(head)
    assert "\nsince then:\n" in first
    assert re.search(r"^read +[1-9][0-9,.]* +\S+ .?s +\S+ .?s$", first, re.MULTILINE)
    assert second.startswith(head)
    assert re.search(r"\nin the last [0-9]+\.[0-9] s:\n", second)
    assert re.search(r"^read +0\.0 +- +-$", second, re.MULTILINE)
    assert re.search(r"^served +0 bytes/s in 0 reads/s$", second, re.MULTILINE)


def test_snapshots_continue_until_the_reader_closes_the_pipe(tree: Mount) -> None:
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


def test_all_mounts_without_a_terminal(tree: Mount) -> None:
    done = ffrfs("top", "-n", "2")
    assert (done.status, done.err) == (0, "")
    first, second = done.out.split("\n\n")
    for table in (first, second):
        title, *rows = table.splitlines()
        assert " ".join(title.split()) == "MOUNT STATE MB/S REQ/S P50 P99 HIT MEMORY AGE PACK"
        (own,) = (row.removeprefix(str(tree.path)) for row in rows if str(tree.path) in row)
        assert re.fullmatch(r" +live +0 +0 +- +- +- +\S+ MiB +[0-9]+s +tree.ffr", own)


def test_root_sees_mounts_of_other_users(as_ordinary_user: AskAsUser) -> None:
    (row,) = as_ordinary_user("ordinary_user_top.py")["rows"]
    assert re.search(r"/mount +live +[0-9.]+ +[0-9.]+ .* MiB +[0-9]+s ", row)


@pytest.mark.parametrize(
    "end",
    [b"q", b"Q", b"\x03", signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT],
    ids=["q", "Q", "Ctrl-C", "SIGTERM", "SIGHUP", "SIGQUIT"],
)
def test_screen_is_drawn_and_restored(tree: Mount, end: bytes | signal.Signals) -> None:
    with top(tree.path) as terminal:
        assert terminal.read_until(ENTER) == ENTER
        terminal.read_until(str(tree.path).encode())
        terminal.read_until(END_OF_SCREEN)
        assert terminal.attributes() != terminal.attributes_before
        terminal.press(b"x")  # no key of top
        terminal.read_until(END_OF_SCREEN)
        if isinstance(end, bytes):
            terminal.press(end)
        else:
            terminal.process.send_signal(end)
        assert terminal.wait() == (0 if isinstance(end, bytes) else -end)
        assert terminal.output.endswith(LEAVE)
        assert terminal.attributes() == terminal.attributes_before


def test_ctrl_z_restores_the_screen_until_top_continues(tree: Mount) -> None:
    # Nothing could continue top, as its process group is orphaned: the kernel does not stop it.
    with watching(tree.path) as terminal:
        terminal.read_until(END_OF_SCREEN)
        terminal.press(b"\x1a")
        terminal.read_until(LEAVE)
        assert terminal.read_until(ENTER) == ENTER
        terminal.read_until(END_OF_SCREEN)


INTERRUPTED = """
import signal, sys
from ffrfs.top.screen import Screen
write = Screen._write

def interrupted(self, text):
    write(self, text)
    if "?1049{0}" in text:
        Screen._write = write
        signal.raise_signal({1})

Screen._write = interrupted
with Screen(sys.stdin, sys.stdout):
    pass
"""


@pytest.mark.parametrize(
    ("when", "number"), [("h", signal.SIGINT), ("l", signal.SIGINT), ("l", signal.SIGTSTP)]
)
def test_signal_during_setup_or_restoration_of_the_screen(
    when: str, number: signal.Signals
) -> None:
    with LiveTerminal("-c", INTERRUPTED.format(when, int(number))) as terminal:
        terminal.wait()
        shown = terminal.output
        assert shown.rindex(LEAVE) > shown.rindex(ENTER)
        assert terminal.attributes() == terminal.attributes_before


def test_screen_is_drawn_again_after_sigstop_and_sigcont(tree: Mount) -> None:
    """It was stopped by SIGSTOP, which a process cannot notice."""
    with watching(tree.path) as terminal:
        terminal.read_until(END_OF_SCREEN)
        stop(terminal.process.pid)
        terminal.process.send_signal(signal.SIGCONT)
        terminal.read_until(ENTER)
        terminal.read_until(END_OF_SCREEN)


@pytest.mark.parametrize("arguments", [1, 0], ids=["one", "all"])
def test_screen_fits_every_size(tree: Mount, arguments: int) -> None:
    with watching(*[tree.path][:arguments], size=(50, 300)) as terminal:
        assert b"mounted for" in terminal.read_until(END_OF_SCREEN) or not arguments
        for rows, columns in [(5, 20), (10, 40), (1, 1), (2, 3), (24, 80)]:
            terminal.resize(rows, columns)
            wait_until(
                lambda: fits(last_screen(terminal), rows, columns),  # noqa: B023
                f"{rows} rows of {columns}",
            )


def last_screen(terminal: LiveTerminal) -> str:
    shown = terminal.read_until(END_OF_SCREEN).rpartition(HOME)[2]
    return re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", shown.decode())


def fits(screen: str, rows: int, columns: int) -> bool:
    lines = screen.split("\r\n")
    return len(lines) == rows and max(map(len, lines)) <= columns


def show_until(terminal: LiveTerminal, text: str) -> str:
    """Return the first screen that contains `text`."""
    found = ""

    def is_shown() -> bool:
        nonlocal found
        found = last_screen(terminal)
        return text in found

    try:
        wait_until(is_shown, text)
    except AssertionError:
        raise AssertionError(f"no {text!r}: {found}") from None
    return found


def test_busy_mount_is_drawn(tree: Mount) -> None:
    with watching(tree.path) as terminal:
        show_until(terminal, "live")
        tree.ask(probes.read_all_in, "", list(TREE))
        busy = show_until(terminal, "\nMB/s  ")
        assert re.search(r"^MB/s +[\u2581-\u2588 ]+ +[0-9.<]+\s*$", busy, re.MULTILINE)
        assert re.search(r"^read  ", busy, re.MULTILINE)


def test_keys_work_while_a_mount_does_not_answer(tree: Mount) -> None:
    with watching(tree.path) as terminal:
        show_until(terminal, "live")
        with tree.stopped():
            assert "mounted for" not in show_until(terminal, "no answer")
            terminal.press(b"h")
            show_until(terminal, "quit  any key back")
            terminal.press(b"h")
        show_until(terminal, "live")


def test_dead_and_unmounted_mounts_are_marked(tree: Mount) -> None:
    with watching(tree.path, size=(24, 200)) as terminal:
        show_until(terminal, "live")
        tree.kill()
        assert f"ffrfs umount {tree.path}" in show_until(terminal, "dead")
        assert ffrfs("umount", tree.path).status == 0
        show_until(terminal, "not mounted any more")


def test_an_unmounted_path_gives_one_line_without_a_screen(tmp_path: Path) -> None:
    with top(tmp_path, size=(24, 400)) as terminal:
        assert terminal.wait() == 1
        assert terminal.output == f"ffrfs: {tmp_path}: not mounted\r\n".encode()


def test_keys_of_the_list(tree: Mount) -> None:
    """The list may also have other mounts of this machine."""
    with watching(size=(500, 150)) as terminal:
        show_until(terminal, str(tree.path))
        for column in ("STATE", "MB/S", "REQ/S"):
            terminal.press(b"s")
            show_until(terminal, f"sort: {column}")
        terminal.press(b"SSS")
        shown = show_until(terminal, "sort: MOUNT")
        assert shown.splitlines()[4].startswith("\u25b6 /")

        def is_chosen() -> bool:
            """Return whether it is chosen; if not, go one row: mounts above it come and go."""
            rows = [row for row in last_screen(terminal).splitlines() if row[2:].startswith("/")]
            own = next(at for at, row in enumerate(rows) if row[2:].startswith(f"{tree.path} "))
            marked = next((at for at, row in enumerate(rows) if row[0] == "\u25b6"), 0)
            if own != marked:
                terminal.press(b"j" if own > marked else b"k")
            return own == marked

        wait_until(is_chosen, "it is chosen")
        terminal.press(b"\r")
        shown = show_until(terminal, "Esc back")
        assert "transport dev" in shown
        assert "native," not in shown
        assert "mounted for" in shown
        terminal.press(b"p")
        show_until(terminal, "p resume")
        terminal.press(b"p")
        show_until(terminal, "p pause")
        terminal.press(b"\x1b")
        show_until(terminal, "Enter open")
        terminal.press(b"\x1b[B\x1b[A")


def test_paused_screen_stays(tree: Mount) -> None:
    with watching(tree.path) as terminal:
        show_until(terminal, "live")
        terminal.press(b"p")
        paused = show_until(terminal, "paused")
        tree.ask(probes.read_all_in, "", list(TREE))
        terminal.press(b"x")
        assert below_title(show_until(terminal, "paused")) == below_title(paused)
        terminal.press(b"p ")  # resume; update now
        show_until(terminal, "\nMB/s  ")


def below_title(screen: str) -> list[str]:
    return screen.splitlines()[1:]


@pytest.mark.parametrize("arguments", [1, 0], ids=["one", "all"])
def test_control_characters_in_names_are_escaped(
    mount: MakeMount, pack_tree: PackTree, places: Path, arguments: int
) -> None:
    place = places / os.fsdecode(b"a\x1b]0;title\x07\xff\xe2\x80\xae\n")
    made = mount(pack_tree(dict(TREE)), mountpoint=place)
    with watching(*[made.path][:arguments], size=(500, 200)) as terminal:
        shown = terminal.read_until(rb"a\x1b]0;title\x07\xff\u202e\n")
        assert not re.search(rb"\x1b\]|\x07|\xff|\xe2\x80\xae", shown)


def test_ascii_terminal_without_colour(tree: Mount, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    monkeypatch.setenv("NO_COLOR", "1")
    with watching(tree.path) as terminal:
        shown = terminal.read_until(b"live")
        tree.ask(probes.read_all_in, "", list(TREE))
        shown += terminal.read_until(b"requests/s")
        shown += terminal.read_until(END_OF_SCREEN)
        assert shown.isascii()
        assert not re.search(rb"\x1b\[[0-9;]*(?:3|4|9)[0-9][;m]", shown)  # a colour


@pytest.mark.parametrize(
    ("before", "shown"),
    [
        ("os.environ['TERM'] = 'dumb'", b"since then:\r\n"),
        ("sys.modules['rich'] = None", b"pip install 'ffrfs[terminal]'"),
    ],
    ids=["dumb", "no rich"],
)
def test_no_screen_on_a_dumb_terminal_or_without_rich(
    tree: Mount, before: str, shown: bytes
) -> None:
    program = f"import os, sys; from ffrfs.cli.main import main; {before}; sys.exit(main())"
    with LiveTerminal("-c", program, "top", tree.path, size=(24, 300)) as terminal:
        terminal.read_until(shown)
        assert ENTER not in terminal.output
