"""Manual pages: they agree with the parser, and mandoc formats them without a complaint."""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from manual import roff, sections
from manual.arguments import Command, read_parser
from manual.pages import manual_pages
from manual.prose import Example, Item, Paragraph, read_prose

from ffrfs.cli.main import make_parser
from ffrfs.mount.config.config import KEYS, make_config, read_config
from ffrfs.mount.kernel.options import parse_words
from tests.checkout import CHECKOUT
from tests.cli.examples import example_lines, ffrfs_arguments
from tests.service.programs import needed

ROOT = CHECKOUT
PAGES = ["ffrfs.1", "ffrfs-mount.8", "ffrfs.conf.5"]
PROGRAM = read_parser(make_parser())


def contents(folder: Path) -> dict[str, str]:
    made = [*(folder / "man").iterdir(), *(folder / "completions").iterdir()]
    return {str(path.relative_to(folder)): path.read_text() for path in made}


def test_committed_files_match_the_parser(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, ROOT / "docs" / "write_manual.py", tmp_path],
        cwd=ROOT,
        timeout=60,
        check=True,
    )
    committed, made = contents(ROOT / "ffrfs" / "service"), contents(tmp_path)
    assert len(made) == 6
    differ = [name for name in made | committed if made.get(name) != committed.get(name)]
    assert not differ, f"ffrfs/service: {', '.join(sorted(differ))}: run: make manual"


def set_page(text: str) -> str:
    """Return the page as a terminal shows it, without bold and italics, on very wide lines."""
    mandoc = needed("mandoc", "mandoc")
    done = subprocess.run(
        [mandoc, "-T", "ascii", "-O", "width=1000"],
        input=text,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return re.sub(".\b", "", done.stdout)


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return manual_pages(make_parser())


@pytest.mark.parametrize("page", PAGES)
def test_mandoc_finds_nothing(page: str, installed: Path) -> None:
    path = installed / f"usr/local/share/man/man{page[-1]}" / page
    command = [needed("mandoc", "mandoc"), "-T", "lint", path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("page", PAGES)
def test_man_formats_pages_without_warnings(page: str, installed: Path) -> None:
    path = installed / f"usr/local/share/man/man{page[-1]}" / page
    done = subprocess.run(
        [needed("man", "man-db"), "--warnings=w", "--local-file", path],
        env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "MANWIDTH": "80"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    name, section = page.rsplit(".", 1)
    assert done.stdout.lstrip().startswith(f"{name.upper()}({section})")


def options_shown(text: str) -> set[str]:
    return set(re.findall(r"^ +((?:-\w, )?--?\w[\w-]*)(?: |$)", text, re.MULTILINE))


def flags(command: Command) -> set[str]:
    return {", ".join(option.flags) for option in command.options if not option.is_help}


def test_every_option_of_every_command_is_documented(pages: dict[str, str]) -> None:
    text = set_page(pages["ffrfs.1"])
    chapters = re.split(r"^   (ffrfs [\w -]+)$", text, flags=re.MULTILINE)
    told = dict(zip(chapters[1::2], chapters[2::2], strict=True))
    assert list(told) == [f"ffrfs {word}" for word in PROGRAM.words]
    for command in PROGRAM.commands:
        if command.word != "mount":
            assert flags(command) <= options_shown(told[command.name]), command.name
    mount = PROGRAM.command("mount")
    assert flags(mount) <= options_shown(set_page(pages["ffrfs-mount.8"]))


def test_exactly_the_configuration_keys_are_documented(pages: dict[str, str]) -> None:
    text = set_page(pages["ffrfs.conf.5"])
    keys = text.partition("\nKEYS\n")[2].partition("\nTHE FILE")[0]
    assert sorted(re.findall(r"^ +(\w+) = \S", keys, re.MULTILINE)) == sorted(KEYS)


def test_parts_of_an_epilog_are_sections(pages: dict[str, str]) -> None:
    text = set_page(pages["ffrfs-mount.8"])
    titles = re.findall(r"^[A-Z].*$", text, re.MULTILINE)
    assert {"MOUNT OPTIONS", "EXIT STATUS", "SIGNALS", "FILES"} <= set(titles)
    statuses = text.partition("\nEXIT STATUS\n")[2].partition("\nMOUNT(8)")[0]
    assert "32 the mount failed" in statuses


def test_example_configuration_is_valid(tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    file.write_text("\n".join(example_lines(sections.CONFIG["examples"])))
    config = read_config(str(file))
    assert config.packs
    assert config.mountpoint
    assert config.settings


@pytest.mark.parametrize("text", [sections.PROGRAM["examples"], sections.MOUNT["examples"]])
def test_examples_are_valid_usage(text: str) -> None:
    commands = [found for line in example_lines(text) for found in ffrfs_arguments(line)]
    assert commands
    for arguments in commands:
        make_parser().parse_args(arguments)


def test_fstab_lines_are_accepted() -> None:
    lines = [line.split() for line in example_lines(sections.MOUNT["mount(8) and fstab(5)"])]
    assert [len(line) for line in lines] == [6, 6]
    for pack, place, kind, options, *_ in lines:
        config = make_config(packs=[pack], mountpoint=place, options=[options], settings={})
        parse_words(config.words)
        assert kind == "ffrfs"


def test_variables_of_the_unit_are_documented() -> None:
    unit = (ROOT / "systemd" / "ffrfs@.service").read_text()
    used = re.findall(
        r"\$\{?([A-Z]+)\}?", "".join(re.findall(r"^ExecStart=.*", unit, re.MULTILINE))
    )
    told = [
        block.term
        for block in read_prose(sections.CONFIG["the files of a unit"])
        if isinstance(block, Item)
    ]
    assert sorted(told) == sorted(used)


# These include characters that mean something to roff, at the beginning of a line or inside it.
PRINTABLE = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), max_size=60)


@settings(max_examples=60)
@example(".SH text")
@example("'br")
@example(r"a\fBb \n(.g \*(Tm \&")
@example('"a" `b` ~c^ -1 --all')
@given(PRINTABLE)
def test_any_text_is_shown_as_it_is(text: str) -> None:
    words = text.replace("`", "").split()
    page = roff.page(
        [*roff.header("x", 1, "2026-01-01"), roff.section("text"), *roff.paragraph(" ".join(words))]
    )
    shown = set_page(page).partition("TEXT\n")[2].rpartition("\n\n")[0]
    assert shown.split() == words


def test_prose_is_parsed_into_blocks() -> None:
    text = "One\ntwo:\n  -a, --all  every\n             one\n  --none\nthree\n\n    $ ffrfs\n"
    assert read_prose(text) == [
        Paragraph("One two:"),
        Item("-a, --all", "every one"),
        Item("--none", ""),
        Paragraph("three"),
        Example(("$ ffrfs",)),
    ]


def test_parser_is_described_as_in_its_help() -> None:
    parser = argparse.ArgumentParser(prog="p")
    parser.add_argument("--level", type=int, choices=[1, 2], default=2, help="a %(default)s b")
    parser.add_argument("--hidden", help=argparse.SUPPRESS)
    group = parser.add_mutually_exclusive_group()
    group.add_argument("-a", action="store_true")
    group.add_argument("-b", action="append", metavar="B")
    parser.add_argument("rest", nargs="*", metavar="REST")
    found = {
        (argument.flags or (argument.value,))[0]: argument
        for argument in read_parser(parser).arguments
    }
    assert set(found) == {"-h", "--level", "-a", "-b", "REST"}
    assert (found["--level"].help, found["--level"].value) == ("a 2 b", "1|2")
    assert found["--level"].choices == ("1", "2")
    assert (found["-a"].value, found["-a"].excludes) == ("", ("-b",))
    assert (found["-b"].value, found["-b"].repeatable) == ("B", True)
    assert (found["REST"].optional, found["REST"].repeatable) == (True, True)
