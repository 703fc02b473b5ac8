"""Mounts of a pack in AWS (moto): credentials that end, and places that must not show them."""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import obstore
import pytest

from ffrfs import pack_folder
from ffrfs.mount.kernel import state
from tests.mount.command import Mount, ffrfs
from tests.remote.epoch import Epoch, read, write_files
from tests.remote.servers.issuer import Issuer
from tests.remote.servers.moto import Moto

COUNT = 40
SIZE = 400_000


@pytest.fixture(scope="module")
def packs(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """Two packs of different files."""
    folder = tmp_path_factory.mktemp("packs")
    write_files(folder / "all", 2 * COUNT, SIZE)
    names = sorted(path.name for path in (folder / "all").iterdir())
    made = []
    for number in range(2):
        (folder / f"{number}").mkdir()
        for name in names[number::2]:
            (folder / "all" / name).rename(folder / f"{number}" / name)
        pack_folder(folder / f"{number}", folder / f"{number}.ffr")
        made.append((folder / f"{number}.ffr").read_bytes())
    return made


@pytest.fixture(scope="module")
def bucket(aws: Moto, packs: list[bytes]) -> str:
    name = f"bucket{secrets.token_hex(4)}"
    store = aws.make_bucket(name, versions=True)
    obstore.put(store, "one.ffr", packs[0])
    return name


Reach = Callable[..., Mount]


@pytest.fixture
def reach(aws: Moto, bucket: str, tmp_path: Path, fuse: None) -> Iterator[Reach]:
    """Mounts the pack, with a cache: reach(environment)."""
    tree = Mount("native", [f"s3://{bucket}/one.ffr"], tmp_path / "mnt", tmp_path / "log")

    def make(environment: dict[str, str], **more: object) -> Mount:
        words = ["--cache-dir", str(tmp_path / "cache"), "--endpoint-url", aws.url]
        clean = {"HOME": str(tmp_path)}
        done = tree.mount(*words, env={**os.environ, **clean, **environment}, **more)
        assert (done.status, done.out, done.err) == (0, "", "")
        return tree

    yield make
    tree.close()
    tree.check_log()


@pytest.mark.promise("S63", "S65")
@pytest.mark.parametrize("way", ["metadata", "web identity"])
def test_expired_credentials_are_renewed(
    reach: Reach, aws: Moto, machine: Issuer, way: str
) -> None:
    first, second = (aws.make_role(f"role{secrets.token_hex(4)}") for _ in range(2))
    machine.order(role=first, lifetime_s=2)
    tree = reach(machine.metadata() if way == "metadata" else machine.web_identity(first))
    before = machine.given()
    aws.forbid(first)
    machine.order(role=second)
    time.sleep(0.3)  # obstore uses credentials for 100 ms before it asks for others
    assert read(tree.path) == Epoch(COUNT, 0, {})
    assert machine.given() > before


@pytest.mark.promise("S62")
def test_an_object_is_replaced_in_a_bucket_that_keeps_versions(
    reach: Reach, aws: Moto, bucket: str, packs: list[bytes]
) -> None:
    tree = reach(aws.admin.environment())
    aws.clients["s3"].put_object(Bucket=bucket, Key="one.ffr", Body=packs[1])
    try:
        assert read(tree.path) == Epoch(COUNT, 0, {})
        (line,) = [line for line in ffrfs("ps").out.splitlines() if str(tree.path) in line]
        assert "changed at its origin" not in line
    finally:
        aws.clients["s3"].put_object(Bucket=bucket, Key="one.ffr", Body=packs[0])


@pytest.mark.promise("S65")
def test_no_secret_is_seen(reach: Reach, aws: Moto, tmp_path: Path) -> None:
    """No secret is in command lines (`ps -ef`), the log, files, or the output of commands."""
    keys = aws.assume(aws.make_role(f"role{secrets.token_hex(4)}"))
    # With `stdin`, the command is a new process, with a command line as from a shell.
    tree = reach(keys.environment(), stdin=subprocess.DEVNULL)
    assert read(tree.path) == Epoch(COUNT, 0, {})
    seen = {"mounts": Path("/proc/mounts").read_bytes()}
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            seen[f"{entry}/cmdline"] = (entry / "cmdline").read_bytes()
    for process in filter(None, [tree.process, tree.worker, *tree.fetchers]):
        assert f"/proc/{process.pid}/cmdline" in seen
    assert tree.worker is not None
    seen["worker"] = Path(f"/proc/{tree.worker.pid}/environ").read_bytes()
    for words in (
        *(["ps"], ["ps", "--json"], ["check", str(tree.path)], ["log", str(tree.path)]),
        *(["stats", *more, str(tree.path)] for more in ([], ["--json"], ["--prometheus"])),
    ):
        done = ffrfs(*words)
        seen[" ".join(words)] = (done.out + done.err).encode()
    runtime = Path(state.runtime_directory(make=False))
    files = [tree.log_file, *(tmp_path / "cache").rglob("*"), *runtime.iterdir()]
    for path in files:
        with contextlib.suppress(FileNotFoundError):  # of another mount that has just ended
            if path.is_file():
                seen[str(path)] = path.read_bytes()
    assert any(path.startswith(f"{runtime}/") for path in seen)
    secret = [keys.secret_key.encode(), keys.token.encode()]
    assert [place for place, found in seen.items() if any(word in found for word in secret)] == []
