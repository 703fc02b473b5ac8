"""Every command that takes packs and TFRecord files takes their URLs, with the same output."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import obstore
import pytest

import ffrfs
from ffrfs.cli.main import main
from tests.remote.reading import reading_urls
from tests.remote.servers.nginx import Nginx
from tests.remote.servers.seaweedfs import SeaweedFS
from tests.tfrecord_example import example, ints
from tests.tfrecord_file import framed

FILES = {f"d{number % 3}/{number}.bin": bytes([number]) * 1000 * number for number in range(12)}
RECORDS = [example(label=ints(bytes([number]))) for number in range(10)]
SHARDS = ("rec/x.tfrecord-00000-of-00002", "rec/x.tfrecord-00001-of-00002")
PACKS = ("one.ffr", "set/")
TFRECORDS = ("rec/", SHARDS[0], "z.tfrecord.gz")

# Returns the command's status, output and errors, with PLACE for the place of the files.
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("local")
    for name, data in FILES.items():
        (path / "folder" / name).parent.mkdir(parents=True, exist_ok=True)
        (path / "folder" / name).write_bytes(data)
    ffrfs.pack_folder(path / "folder", path / "one.ffr")
    ffrfs.pack_folder(path / "folder", path / "set", shards=2)
    (path / "rec").mkdir()
    for number, name in enumerate(SHARDS):
        (path / name).write_bytes(framed(RECORDS[number * 5 :][:5]))
    (path / "z.tfrecord.gz").write_bytes(gzip.compress(framed(RECORDS)))
    for name, of in (("bad.ffr", "one.ffr"), ("bad.tfrecord", SHARDS[0])):
        data = bytearray((path / of).read_bytes())
        data[data.index(FILES["d2/11.bin"]) if name == "bad.ffr" else 20] ^= 1
        (path / name).write_bytes(data)
    shutil.rmtree(path / "folder")
    return path


@pytest.fixture(params=["s3", "http"])
def place(
    request: pytest.FixtureRequest, local: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """The URL of a directory with the same files as `local`."""
    endpoint_url = None
    if request.param == "s3":
        server: SeaweedFS = request.getfixturevalue("s3")
        bucket: str = request.getfixturevalue("bucket")
        endpoint_url = server.url
        for path in local.rglob("*"):
            if path.is_file():
                name = str(path.relative_to(local))
                obstore.put(server.store(bucket), f"deep/{name}", path)
        url = f"s3://{bucket}/deep/"
    else:
        web: Nginx = request.getfixturevalue("web")
        root: Path = request.getfixturevalue("web_root")
        shutil.copytree(local, root / "commands", dirs_exist_ok=True)
        url = f"{web.url}/commands/"
    with reading_urls(monkeypatch, tmp_path, endpoint_url):
        yield url


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str], local: Path) -> Run:
    def run(base: str | Path, *arguments: str) -> tuple[int, str, str]:
        """Run a command; `{}` in an argument is replaced by the place of the files."""
        place = f"{base}".rstrip("/")
        status = main([argument.replace("{}", place) for argument in arguments])
        done = capfd.readouterr()
        return status, done.out.replace(place, "PLACE"), done.err.replace(place, "PLACE")

    return run


def folder_of(path: Path) -> dict[str, bytes]:
    files = (file for file in path.rglob("*") if file.is_file())
    return {str(file.relative_to(path)): file.read_bytes() for file in files}


GOOD = [
    *(("info", f"{{}}/{name}") for name in (*PACKS, *TFRECORDS)),
    *(("info", "--json", f"{{}}/{name}") for name in ("set/", "rec/")),
    *(("ls", "-R", f"{{}}/{name}") for name in (*PACKS, *TFRECORDS[:2])),
    *(("cat", f"{{}}/{name}", "d1/4.bin", "d2/11.bin") for name in PACKS),
    ("cat", "{}/rec/", "000000007/label.npy"),
    ("cat", "--example", "{}/rec/", "1", "8"),
    *(("head", "-n", "7", f"{{}}/{name}") for name in TFRECORDS),
    *(("verify", f"{{}}/{name}") for name in (*PACKS, *TFRECORDS)),
    ("verify", "--json", "{}/one.ffr", "{}/rec/"),
    ("info", "--schema", "{}/rec/"),
    *(("schema", "stats", "--jobs", "1", f"{{}}/{name}") for name in ("rec/", "z.tfrecord.gz")),
    ("schema", "infer", "--jobs", "1", "{}/rec/"),
]
BAD = [
    *(("verify", f"{{}}/{name}") for name in ("bad.ffr", "bad.tfrecord")),
    ("cat", "{}/bad.ffr", "d2/11.bin"),
    ("head", "{}/bad.tfrecord"),
    ("schema", "stats", "--jobs", "1", "{}/bad.tfrecord"),
    ("head", "{}/one.ffr"),
    ("cat", "{}/one.ffr", "none"),
    ("cat", "--example", "{}/rec/", "10"),
    ("info", "--schema", "{}/one.ffr"),
]


def test_the_same_output(place: str, run: Run, local: Path) -> None:
    for arguments in (*GOOD, *BAD):
        expected = run(local, *arguments)
        assert expected[0] == (arguments in BAD), arguments
        assert run(place, *arguments) == expected, arguments


def test_files_that_are_written(place: str, run: Run, local: Path, tmp_path: Path) -> None:
    for number, name in enumerate((*PACKS, *TFRECORDS[:2])):
        copies = []
        for base in (place, local):
            copy = tmp_path / f"{number}-{len(copies)}"
            assert run(base, "extract", f"{{}}/{name}", str(copy)) == (0, "", "")
            copies.append(folder_of(copy))
        assert copies[0] == copies[1] != {}
    for number, name in enumerate(TFRECORDS):
        target = tmp_path / f"{number}.tfrecord"
        assert run(place, "convert", "-q", f"{{}}/{name}", str(target)) == (0, "", "")
        assert target.read_bytes() == framed(RECORDS if name != SHARDS[0] else RECORDS[:5])
    assert run(place, "pack", "-q", "{}/set/", str(tmp_path / "again.ffr")) == (0, "", "")
    with ffrfs.PackedFolder(tmp_path / "again.ffr") as found:
        assert dict(found.items()) == FILES
    schema = str(tmp_path / "schema.pbtxt")
    assert run(place, "schema", "infer", "-o", schema, "{}/rec/") == (0, "", "")
    valid = (0, "no anomalies\n", "")
    again = "{}/z.tfrecord.gz"
    assert run(place, "schema", "validate", "--schema", schema, "{}/rec/") == valid
    assert run(place, "schema", "validate", "--schema", schema, "--previous", again, again) == valid


def test_index(place: str, run: Run, tmp_path: Path) -> None:
    """The index of a file at a URL is in the user's cache, and the next opening uses it."""
    status, out, err = run(place, "index", "{}/rec/", "{}/set/")
    assert (status, err) == (0, "")
    lines = out.splitlines()
    for line, name in zip(lines, SHARDS, strict=False):
        assert line.startswith(f"PLACE/{name}: wrote its index to {tmp_path}/indexes/")
    assert lines[2:] == [f"PLACE/set/part_{n:05}.ffr: contains an index already" for n in range(2)]
    _, out, _ = run(place, "info", "--json", "{}/rec/")
    assert [file["sidecar"] for file in json.loads(out)["files"]] == [True, True]


REFUSED = [
    (("info", "{}/none.ffr"), "PLACE/none.ffr: there is no such object"),
    (("ls", "{}/none/"), "PLACE/none/: "),
    (("verify", "{}/rec"), "PLACE/rec: "),
    (("extract", "{}/one.ffr", "{}/out/"), "is a URL; files are extracted to a local"),
    (("schema", "stats", "-o", "{}/s.pb", "{}/rec/"), "PLACE/s.pb: is a URL; schemas and"),
    (("schema", "validate", "--schema", "{}/s.pb", "{}/rec/"), "PLACE/s.pb: is a URL"),
    (("prefetch", "{}/one.ffr", "d1/4.bin"), "PLACE/one.ffr: is a URL; give the directory where"),
    (("prefetch", "--all", "{}/one.ffr"), "PLACE/one.ffr: is a URL; give the directory where"),
    (("head", "{}/set/"), "PLACE/set/: holds no TFRecord files (*.tfrecord*)\n"),
    (("stats", "{}/one.ffr"), "PLACE/one.ffr: is a URL; give the directory where"),
    (("umount", "{}/one.ffr"), "PLACE/one.ffr: is a URL; give the directory where"),
]


def test_refused_arguments(place: str, run: Run) -> None:
    for arguments, reason in REFUSED:
        status, out, err = run(place, *arguments)
        assert (status, out) == (1, ""), arguments
        assert err.startswith("ffrfs: ")
        assert reason in err
        assert err.count("\n") == 1


@pytest.mark.parametrize("place", ["http"], indirect=True)
def test_a_signature_is_not_shown(place: str, run: Run, tmp_path: Path) -> None:
    for arguments in (
        ("info", "{}/one.ffr?key=hush"),
        ("info", "--json", f"{{}}/{SHARDS[0]}?key=hush"),
        ("verify", "{}/one.ffr?key=hush", "{}/rec/?key=hush"),
        ("verify", "{}/bad.ffr?key=hush"),
        ("index", "{}/one.ffr?key=hush", f"{{}}/{SHARDS[0]}?key=hush"),
        ("extract", "{}/bad.ffr?key=hush", str(tmp_path / "extracted")),
        ("head", "{}/one.ffr?key=hush"),
        ("ls", "{}/none.ffr?key=hush"),
    ):
        _, out, err = run(place, *arguments)
        assert "PLACE" in out + err, arguments
        assert "hush" not in out + err
