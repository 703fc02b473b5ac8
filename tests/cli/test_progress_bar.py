"""Commands that may take long have a progress bar on a terminal of any size, and only there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command_run import Run
from tests.ffrecord_file import write_folder
from tests.terminal import UNKNOWN_SIZE, run_on_terminal
from tests.tfrecord_file import write_tfrecord

# Each command with the name that its bar has.
COMMANDS = {
    "pack tree new.ffr": "new.ffr",
    "extract tree.ffr new": "new",
    "verify tree.ffr": "tree.ffr",
    "verify x.tfrecord": "x.tfrecord",
    "info x.tfrecord": "x.tfrecord",
    "info --schema x.tfrecord": "x.tfrecord",
    "convert x.tfrecord new.tfrecord": "new.tfrecord",
    "convert x.tfrecord new.tfrecord.gz": "new.tfrecord.gz",
    "convert --to ffrecord x.tfrecord new.ffr": "new.ffr",
    "convert --to pack x.tfrecord new.ffr": "new.ffr",
    "convert --features x.tfrecord new.ffr": "new.ffr",
    "convert tree.ffr new.tfrecord": "new.tfrecord",
}
QUIET_COMMANDS = [
    "pack -q tree new.ffr",
    "verify -q tree.ffr",
    "verify -q x.tfrecord",
    "convert -q tree.ffr new.tfrecord",
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The current folder has files for each of the commands."""
    write_folder(tmp_path / "tree.ffr", {"a": b"a", "b": b"b"})
    write_tfrecord(tmp_path / "x.tfrecord", [b"", b""])
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "a").write_bytes(b"a")
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("command", "size"),
    [*((command, (24, 80)) for command in COMMANDS), ("pack tree new.ffr", UNKNOWN_SIZE)],
)
def test_bar_is_drawn_at_once_and_erased_at_the_end(command: str, size: tuple[int, int]) -> None:
    output = run_on_terminal("-m", "ffrfs", *command.split(), size=size)
    assert output.startswith(f"\r{COMMANDS[command]}: 0.00B [00:00, ?B/s]".encode())
    assert "B/s" not in left_on_terminal(output)


def left_on_terminal(output: bytes) -> str:
    """Return what a terminal shows in the end: the parts of each line overwrite one another."""
    lines = []
    # As text, because a full block of a bar has three bytes but one column.
    for parts in output.decode().split("\r\n"):
        line = ""
        for part in parts.split("\r"):
            line = part + line[len(part) :]
        lines.append(line.rstrip())
    return "\n".join(lines)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("command", QUIET_COMMANDS)
def test_quiet_command_has_no_bar(command: str) -> None:
    assert run_on_terminal("-m", "ffrfs", *command.split()) == b""


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("command", COMMANDS)
def test_without_a_terminal_there_is_no_bar(ffrfs: Run, command: str) -> None:
    done = ffrfs(*command.split())
    assert (done.status, done.err) == (0, "")
    assert b"\r" not in done.out
