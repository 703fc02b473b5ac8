"""Completions, as the shells themselves produce them."""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from manual.arguments import read_parser
from manual.candidates import KINDS, MountOption, mount_options
from manual.completions import completion_scripts

from ffrfs.cli.main import COMMANDS, make_parser
from ffrfs.mount.client.mounted import mounted
from ffrfs.mount.config.config import make_config
from ffrfs.mount.config.settings import SETTINGS
from ffrfs.mount.kernel.options import parse_words
from tests.ffrecord_file import write_folder
from tests.service.programs import needed
from tests.service.shells import NAMES, Shell, open_shell

PROGRAM = read_parser(make_parser())
MOUNT_OPTIONS = mount_options(PROGRAM.command("mount"))

FILES = ["a.ffr", "a.txt", "my pack.ffr", "s.tfrecord-00000-of-1", "s.tfrecord.idx"]
PACKS = {"d/a.ffr", "d/my pack.ffr", "d/s.tfrecord-00000-of-1", "d/sub"}
EVERYTHING = {f"d/{name}" for name in FILES} | {"d/sub"}


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """A folder with the completion scripts, and with files to complete."""
    folder = Path(tempfile.mkdtemp(prefix="ffrfs-test-"))
    try:
        for name, text in completion_scripts(make_parser()).items():
            (folder / name).write_text(text)
        (folder / "d" / "sub").mkdir(parents=True)
        for name in FILES:
            (folder / "d" / name).touch()
        yield folder
    finally:
        shutil.rmtree(folder)


@pytest.fixture(scope="module")
def open_shells(place: Path) -> Iterator[Callable[[str], Shell]]:
    """Opens a shell, or returns the one that is open: tests run in any order."""
    with ExitStack() as stack:
        yield functools.cache(lambda name: stack.enter_context(open_shell(name, place, place)))


@pytest.fixture(params=NAMES)
def shell(request: pytest.FixtureRequest, open_shells: Callable[[str], Shell]) -> Shell:
    needed(request.param, request.param)
    return open_shells(request.param)


def candidates(shell: Shell, before: str, word: str = "") -> set[str]:
    """Return the candidates without the slash that two of the shells append to folders."""
    return {candidate.rstrip("/") for candidate in shell.complete(before, word)}


def test_shellcheck_finds_nothing(place: Path) -> None:
    command = [needed("shellcheck", "shellcheck"), place / "ffrfs.bash"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_commands(shell: Shell) -> None:
    assert set(COMMANDS) <= candidates(shell, "ffrfs")
    assert candidates(shell, "ffrfs", "mo") == {"mount"}
    assert candidates(shell, "ffrfs", "--v") == {"--version"}


@pytest.mark.parametrize("command", PROGRAM.words)
def test_options(shell: Shell, command: str) -> None:
    long_flags = {option.long_flag for option in PROGRAM.command(command).options} - {None}
    found = {flag.rstrip("=") for flag in candidates(shell, f"ffrfs {command}", "--")}
    assert found == long_flags


@pytest.mark.parametrize(
    ("before", "word", "expected"),
    [
        ("ffrfs mount --engine", "", {"auto", "native", "pyfuse3"}),
        ("ffrfs mount", "--engine=n", {"--engine=native"}),
        (
            "ffrfs convert --to",
            "",
            {"tfrecord", "ffrecord", "pack", "jsonl", "parquet", "webdataset", "folder"},
        ),
        ("ffrfs pack --order", "p", {"path"}),
        ("ffrfs cluster", "", {"plan", "run", "commit", "status"}),
        ("ffrfs cluster run --on-error", "s", {"stop", "skip"}),
        ("ffrfs pack --order", "d/a", {"d/a.ffr", "d/a.txt"}),
    ],
)
def test_values_of_options(shell: Shell, before: str, word: str, expected: set[str]) -> None:
    assert candidates(shell, before, word) == expected


@pytest.mark.parametrize("before", ["ffrfs mount --threads", "ffrfs pack --include"])
def test_free_values_have_no_candidates(shell: Shell, before: str) -> None:
    assert candidates(shell, before) == set()


@pytest.mark.parametrize(
    ("before", "word", "expected"),
    [
        ("ffrfs mount", "d/", PACKS),
        ("ffrfs mount -f --threads 4 d/a.ffr", "d/", PACKS),
        ("ffrfs mount --engine=native", "d/", PACKS),
        ("ffrfs ls", "d/a", {"d/a.ffr"}),
        ("ffrfs ls", r"d/my\ ", {"d/my pack.ffr"}),
        ("ffrfs ls", "'d/my", {"d/my pack.ffr"}),
        ("ffrfs ls --", "d/a", {"d/a.ffr"}),
        ("ffrfs ls --on-conflict=first", "d/a", {"d/a.ffr"}),
        ("ffrfs ls d/a.ffr", "", set()),
        ("ffrfs extract d/a.ffr", "d/", {"d/sub"}),
        ("ffrfs pack", "d/", EVERYTHING),
        ("ffrfs cluster plan d/a.txt", "d/", EVERYTHING),
        ("ffrfs cluster run --jobs 2", "d/a.t", {"d/a.txt"}),
        ("ffrfs convert d/a.txt", "d/a", {"d/a.ffr", "d/a.txt"}),
    ],
)
def test_files_are_completed_where_expected(
    shell: Shell, before: str, word: str, expected: set[str]
) -> None:
    assert candidates(shell, before, word) == expected


def test_second_of_packs_with_colons_between_them(shell: Shell) -> None:
    found = shell.complete("ffrfs mount", "d/a.ffr:d/s")
    # bash splits a word at colons, and shows only the last part.
    ends = {candidate.rpartition(":")[2].rstrip("/") for candidate in found}
    assert ends == {"d/s.tfrecord-00000-of-1", "d/sub"}


def test_words_of_option_o(shell: Shell) -> None:
    found = candidates(shell, "ffrfs mount -o", "ro,al")
    assert found == {"ro,allow_other", "ro,allow_root", "ro,allow_missing"}
    assert "umask=" in candidates(shell, "ffrfs mount -o")


@pytest.mark.usefixtures("fuse")
def test_ffrfs_mount_points_are_completed(shell: Shell, place: Path) -> None:
    pack = write_folder(place / "x.ffr", {"a": b"1"})
    point = place / "mount point"
    begin = str(place / "mount").replace(" ", r"\ ")
    commands = [f"ffrfs {name}" for name in ("umount", "stats", "top", "prefetch")]
    with mounted(pack, point):
        assert str(point) in candidates(shell, "ffrfs umount")
        assert [candidates(shell, name, begin) for name in commands] == [{str(point)}] * 4
    # Without a candidate, the typed word stays as it is.
    assert not any(str(point) in candidates(shell, name, begin) for name in commands)


def test_every_value_placeholder_is_defined() -> None:
    """Otherwise it silently has no completion: candidates.py must define the name."""
    values = [argument.value for command in PROGRAM.commands for argument in command.arguments]
    assert set(re.findall(r"[A-Z]+", " ".join(values))) <= KINDS.keys()


_VALUES = {
    "OCTAL": "027",
    "URL": "https://x",
    "NAME": "x",
    "FILE": "/x",
    "RECORDS": "512",
    "SIZE": "1G",
}


@pytest.mark.parametrize("option", MOUNT_OPTIONS, ids=lambda option: option.name)
def test_words_of_option_o_are_accepted(option: MountOption) -> None:
    value = re.split(r"[|\[]", option.value)[0]
    word = f"{option.name}={_VALUES.get(value, value if value.islower() else '1')}"
    if not value:
        word = option.name
    config = make_config(options=[word], settings={})
    assert bool(config.settings) == (option.name in SETTINGS)
    parse_words(config.words)


def test_every_setting_is_a_word_of_option_o() -> None:
    assert SETTINGS.keys() <= {option.name for option in MOUNT_OPTIONS}
