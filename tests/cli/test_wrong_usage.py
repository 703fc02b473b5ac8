"""Wrong usage: one line that says what is wrong, and where the help is."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import ffrfs
from ffrfs.cli.main import main
from tests.cli.command_run import Done

WRONG = {
    "mont a b": "ffrfs: unknown command 'mont'. Did you mean 'mount'?; see ffrfs --help",
    "zzz": "ffrfs: unknown command 'zzz'; see ffrfs --help",
    "help mont": "ffrfs: unknown command 'mont'. Did you mean 'mount'?; see ffrfs --help",
    "": "ffrfs: the following arguments are required: COMMAND; see ffrfs --help",
    "ls": "ffrfs ls: the following arguments are required: PACK; see ffrfs ls --help",
    "extract x": (
        "ffrfs extract: the following arguments are required: DEST; see ffrfs extract --help"
    ),
    "prefetch": (
        "ffrfs prefetch: the following arguments are required: MOUNTPOINT; "
        "see ffrfs prefetch --help"
    ),
    "prefetch x": (
        "ffrfs prefetch: no paths: give a PATH, or a list of paths with --from, or --all; "
        "see ffrfs prefetch --help"
    ),
    "ls x --foo": "ffrfs ls: unknown argument --foo; see ffrfs ls --help",
    "pack a b --jobs x": (
        "ffrfs pack: argument --jobs: 'x': must be a number of at least 1; see ffrfs pack --help"
    ),
    "verify a --jobs 65": (
        "ffrfs verify: argument --jobs: '65': must be a number from 1 to 64; "
        "see ffrfs verify --help"
    ),
    "info a --limit ²": (
        "ffrfs info: argument --limit: '²': must be a number of at least 1; see ffrfs info --help"
    ),
}


@pytest.fixture
def ends(capfdbinary: pytest.CaptureFixture[bytes]) -> Callable[[str], Done]:
    """Runs a command line that argparse ends."""

    def run(line: str) -> Done:
        with pytest.raises(SystemExit) as end:
            main(line.split())
        out, err = capfdbinary.readouterr()
        assert isinstance(end.value.code, int)
        return Done(end.value.code, out, err.decode())

    return run


@pytest.mark.parametrize("line", WRONG)
def test_what_is_wrong_is_one_line(ends: Callable[[str], Done], line: str) -> None:
    assert ends(line) == Done(2, b"", WRONG[line] + "\n")


@pytest.mark.parametrize(
    ("line", "same"),
    {
        "help": "--help",
        "help pack": "pack --help",
        "unmount --help": "umount --help",
        "help unmount": "umount --help",
        "-V": "--version",
    }.items(),
)
def test_other_words_for_the_same(ends: Callable[[str], Done], line: str, same: str) -> None:
    assert ends(line) == ends(same)
    assert ends(line).status == 0


def test_version(ends: Callable[[str], Done]) -> None:
    assert ends("-V").out.decode() == f"ffrfs {ffrfs.__version__}\n"
