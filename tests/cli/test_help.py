"""Help: every argument has a line, and every example works."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from pathlib import Path
from typing import cast

import pytest
from manual.arguments import Command, read_parser

from ffrfs.cli.main import COMMANDS, GROUPS, make_parser
from ffrfs.cli.parser import Parser
from tests.ascii_locale import ASCII
from tests.cli.command_run import Run
from tests.cli.examples import example_lines, ffrfs_arguments
from tests.ffrecord_file import write_folder, write_records
from tests.interpreter import python
from tests.tfrecord_example import example, ints
from tests.tfrecord_file import framed

PROGRAM = read_parser(make_parser())
LINES = {command.word: example_lines(command.epilog) for command in PROGRAM.commands}
# Commands that need no mount, and may run in any order after pack.
RUN = ("convert", "index", "ls", "cat", "head", "extract", "info", "verify")
EXAMPLES_MIN, EXAMPLES_MAX = 2, 6
SCREEN_LINES = 40

by_command = pytest.mark.parametrize(
    "command", [pytest.param(each, id=each.word) for each in PROGRAM.commands]
)


def test_every_command_is_in_one_group() -> None:
    assert sorted(COMMANDS) == sorted({name for names in GROUPS.values() for name in names})
    text = Parser.format_help_all(cast(Parser, make_parser()))
    assert [line for line in text.splitlines() if line.rstrip(":") in GROUPS] == [
        f"{title}:" for title in GROUPS
    ]


@pytest.mark.parametrize("name", ["", *PROGRAM.words])
def test_help_fits_a_terminal(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        make_parser().parse_args([*name.split(), "--help"])
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if len(line) >= 80] == []
    if name:
        assert len(lines) <= SCREEN_LINES


@pytest.mark.parametrize("option", ["--help", "--help-all"])
def test_help_in_a_locale_without_its_characters(option: str) -> None:
    done = python("-m", "ffrfs", "cat", option, env=os.environ | ASCII)
    assert (done.returncode, done.stderr) == (0, "")
    assert r"Write the files PATH\u2026 of PACK" in done.stdout


@by_command
def test_help_all_shows_every_option(command: Command, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        make_parser().parse_args([*command.word.split(), "--help-all"])
    text = capsys.readouterr().out
    assert [option.flags for option in command.options if option.flags[-1] not in text] == []


@by_command
def test_every_argument_has_a_help_text(command: Command) -> None:
    assert [argument for argument in command.arguments if not argument.help] == []


@by_command
def test_help_ends_with_examples(command: Command) -> None:
    examples = command.epilog.rpartition("Examples:\n")[2]
    assert EXAMPLES_MIN <= len(example_lines(examples)) <= EXAMPLES_MAX
    assert example_lines(examples) == [line.strip() for line in examples.splitlines()]


@pytest.mark.parametrize("line", [line for lines in LINES.values() for line in lines])
def test_example_is_valid_usage(line: str) -> None:
    (arguments,) = ffrfs_arguments(line)
    words = arguments[:2] if arguments[0] in PROGRAM.with_actions else arguments[:1]
    assert line in [*LINES[arguments[0]], *LINES[" ".join(words)]]
    make_parser().parse_args(arguments)


def write_script(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def make_folder(path: Path) -> None:
    (path / "train" / "cat").mkdir(parents=True)
    for name in ("train/cat/1.jpg", "train/cat/2.jpg", "labels.csv", "x.tmp"):
        (path / name).write_text(name)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders to pack, and a shell's programs: ffrfs, and an ssh that runs its command here."""
    path = tmp_path_factory.mktemp("home")
    for name in ("imagenet", "imagenet21k", "work/data", "work/cats", "work/dogs"):
        make_folder(path / name)
    write_script(path / "ffrfs", f'exec "{sys.executable}" -m ffrfs "$@"')
    write_script(path / "ssh", 'shift; exec "$@"')
    return path


def _is_local(line: str) -> bool:
    """Return whether the example is tried here: tests/remote tries those for buckets."""
    return "://" not in line


def run(line: str, home: Path, where: Path) -> None:
    environ = os.environ | {"HOME": str(home), "PATH": f"{home}:{os.environ['PATH']}"}
    command = ["bash", "-o", "pipefail", "-c", line]
    done = subprocess.run(
        command, cwd=where, env=environ, capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stderr) == (0, ""), f"{line}: {done}"


@pytest.fixture(scope="module")
def packed(home: Path) -> Path:
    """A folder in which the examples of `pack` were run, with TFRecord files beside their packs."""
    work = home / "work"
    write_folder(work / "old.ffr", {"a.jpg": b"1", "a.txt": b"1"})
    write_folder(work / "a.ffr", {"a": b"same"})
    write_folder(work / "b.ffr", {"b": b"same"})
    for line in filter(_is_local, LINES["pack"]):
        run(line, home, work)
    records = [example(label=ints(bytes([number]))) for number in range(3)]
    (work / "train.tfrecord").write_bytes(framed(records))
    (work / "train.tfrecord.gz").write_bytes(gzip.compress(framed(records)))
    write_records(work / "train.ffr", records)
    (work / "videos").mkdir()
    write_folder(work / "videos" / "1.ffr", {"b": bytes(3 << 20)})
    return work


@pytest.mark.parametrize("line", [line for word in RUN for line in filter(_is_local, LINES[word])])
def test_example_works(
    ffrfs: Run, packed: Path, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A copy, because some examples write files that others write or read.
    subprocess.run(["cp", "-r", f"{packed}/.", tmp_path], timeout=60, check=True)
    if line.startswith("ffrfs convert"):  # the target of one example is the source of another
        subprocess.run(["rm", "-f", tmp_path / line.rsplit(maxsplit=1)[-1]], timeout=60, check=True)
    if any(character in line for character in "|>~$"):
        run(line, packed.parent, tmp_path)
        return
    monkeypatch.chdir(tmp_path)
    (words,) = ffrfs_arguments(line)
    done = ffrfs(*words)
    assert (done.status, done.err) == (0, "")
