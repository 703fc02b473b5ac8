"""An index whose folders are deeper than any writer makes them: every command refuses it."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ffrfs import PackedFolder
from ffrfs.errors import FormatError
from tests.cli.command_run import Run
from tests.index_file import chained_pack

DEPTH = 100_000
NAME = "n" * 255


@pytest.fixture(scope="module")
def deep(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    pack = tmp_path_factory.mktemp("deep") / "deep.ffr"
    pack.write_bytes(chained_pack(DEPTH))
    yield pack
    # A failed test may leave folders that pytest cannot remove, because it calls itself for each
    # folder.
    subprocess.run(["rm", "-rf", "--", pack.parent], check=True)


@pytest.mark.parametrize(
    "arguments",
    [
        ("ls", "-R", "deep.ffr"),
        ("ls", "-R", "--json", "deep.ffr"),
        ("extract", "deep.ffr", "out"),
        ("extract", "deep.ffr", "out", NAME),
        ("convert", "deep.ffr", "x.tfrecord"),
    ],
    ids=lambda arguments: " ".join(arguments).replace(NAME, "PATH"),
)
def test_commands_refuse_a_deep_index_and_write_nothing(
    ffrfs: Run, deep: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    monkeypatch.chdir(deep.parent)
    done = ffrfs(*arguments)
    assert (done.status, done.out) == (1, b"")
    assert "is deeper than 1024 directories" in done.err
    assert done.err.count("\n") == 1
    assert len(done.err) < 300
    assert [path.name for path in deep.parent.iterdir()] == [deep.name]


def test_a_recursive_listing_is_refused_at_once(deep: Path) -> None:
    with PackedFolder(deep) as folder:
        begin_s = time.process_time()
        with pytest.raises(FormatError, match="is deeper than 1024 directories"):
            folder.list(recursive=True)
        assert time.process_time() - begin_s < 1
        assert folder.list() == [NAME]


def test_ls_info_and_verify_of_a_deep_index(ffrfs: Run, deep: Path) -> None:
    assert ffrfs("ls", deep).lines == [NAME]
    assert f"directories      {DEPTH:,}" in ffrfs("info", deep).lines
    done = ffrfs("verify", "-q", deep)
    assert (done.status, done.err.count("\n")) == (1, 1)
    assert len(done.err) < 1000
