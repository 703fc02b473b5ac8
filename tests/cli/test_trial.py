"""A new user's trial: commands and mistakes, each with its status and its first line.

trial.txt has "$ COMMAND", and below it "STATUS LINE". LINE is the first on standard error, or if
there is none, on standard output; "…" is any text. Each command finds the same files in DIR.
"""

from __future__ import annotations

import gzip
import re
import shlex
import shutil
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from stat import S_ISDIR

import pytest

from ffrfs import pack_folder
from ffrfs.tfrecord import from_dict
from tests.cli.command_run import Run
from tests.ffrecord_file import record_extents, write_records
from tests.folder.folder_model import make_folder
from tests.tfrecord_file import flip_record, write_tfrecord

JPEG = b"\xff\xd8\xff\xe0" + bytes(300)
PETS = {
    "cat": {"1.jpg": JPEG, "1.json": b'{"label": 0}\n'},
    "dog": {"2.jpg": JPEG, "2.json": b'{"label": 1}\n'},
    "README": b"pets\n",
}
FILES = {
    "empty.ffr": b"",
    "notes.txt": b"some notes\n" * 9,
    "photo.jpg": JPEG,
    "train.jsonl": b'{"features": {"label": {"int64_list": [3]}}}\n',
    "bad.jsonl": b'{"features": \n',
    "bad.toml": b"packs = [\n",
    "wrong.toml": b'packs = ["pets.ffr"]\nmountpont = "mnt"\n',
    "paths.txt": b"cat/1.jpg\ncat/9.jpg\n",
    "table.csv": b"id,name\n1,Tom\n2,Rex\n",
    "table.csv.gz": gzip.compress(b"id,name\n1,Tom\n"),
    "bad.csv": b"id,name\n1,Tom\n2\n",
}
KEEPS_WHAT_IS_GOOD = ("extract",)  # Other commands that fail leave nothing behind.
USAGE = {"mount": 1}  # the status of mount(8); other commands end with 2


def rows() -> dict[str, str]:
    text = Path(__file__).with_name("trial.txt").read_text()
    found = re.findall(r"^\$ ffrfs ?(.*)\n(\d+.*)$", text, re.MULTILINE)
    assert len(dict(found)) == len(found) == text.count("\n$ ") + text.startswith("$ ")
    return dict(found)


ROWS = rows()


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of files that each command finds."""
    folder = tmp_path_factory.mktemp("trial")
    pets = make_folder(folder / "pets", PETS)
    pack = folder / "pets.ffr"
    pack_folder(pets, pack)
    pack_folder(pets, folder / "set", shards=2)
    shutil.copy(pack, folder / "damaged.ffr")
    with open(folder / "damaged.ffr", "r+b") as file:
        file.seek(record_extents(pack)[1][0])
        file.write(b"?")
    (folder / "cut.ffr").write_bytes(pack.read_bytes()[:-100])
    write_records(folder / "records.ffr", [b"one", b"two"])
    with tarfile.open(folder / "pets.tar", "w") as tar:
        tar.add(pets, "pets")
    (folder / "pets.tar.gz").write_bytes(gzip.compress((folder / "pets.tar").read_bytes()))
    (folder / "cut.tar").write_bytes((folder / "pets.tar").read_bytes()[:1500])
    with zipfile.ZipFile(folder / "pets.zip", "w") as archive:
        archive.writestr("README", "pets\n")
    records = [from_dict({"label": i, "text": f"pet {i}"}).SerializeToString() for i in range(3)]
    train = write_tfrecord(folder / "train.tfrecord", records)
    (folder / "cut.tfrecord").write_bytes(train.read_bytes()[:-3])
    flip_record(write_tfrecord(folder / "damaged.tfrecord", records), 1)
    for name, content in FILES.items():
        (folder / name).write_bytes(content)
    for name in ("mnt", "none"):
        (folder / name).mkdir()
    return folder


def state(folder: Path) -> dict[Path, tuple[int, ...]]:
    """Return each path with its inode, size and time; a directory has none of these."""
    found = {path: path.lstat() for path in folder.rglob("*")}
    return {
        path: () if S_ISDIR(status.st_mode) else (status.st_ino, status.st_size, status.st_mtime_ns)
        for path, status in found.items()
    }


@pytest.fixture(scope="module")
def unchanged() -> list[Path]:
    """Copies of the examples in which the commands so far have changed nothing."""
    return []


@pytest.fixture
def folder(
    examples: Path, unchanged: list[Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    if not unchanged:
        unchanged.append(shutil.copytree(examples, tmp_path_factory.mktemp("trial") / "dir"))
    before = state(unchanged[0])
    yield unchanged[0]
    if state(unchanged[0]) != before:
        del unchanged[0]


@pytest.mark.parametrize("command", ROWS)
def test_trial(
    ffrfs: Run, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("FFRFS_REMOTE_TIMEOUT", "1")
    monkeypatch.setenv("HOME", str(tmp_path))
    before = state(folder)
    words = shlex.split(command)
    done = ffrfs(*words)
    said = (done.err or done.out.decode()).replace(str(folder), "DIR")
    first = said.partition("\n")[0]
    wanted = re.escape(ROWS[command]).replace("…", ".*")
    assert re.fullmatch(wanted, f"{done.status} {first}".rstrip()), f"{done.status} {first}"
    if done.status and words[:1] not in [[name] for name in KEEPS_WHAT_IS_GOOD]:
        assert state(folder) == before
    if " --help" in first:
        assert done.status == USAGE.get(words[0] if words else "", 2)
        assert (done.out, done.err.count("\n")) == (b"", 1)
