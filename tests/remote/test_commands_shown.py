"""The commands for servers that the documents show, against SeaweedFS and nginx."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import obstore
import pytest
from obstore.store import S3Store

from ffrfs import pack_folder
from tests.docs import shown
from tests.docs.shown import Shell
from tests.folder.folder_model import make_folder
from tests.remote.servers.nginx import Nginx
from tests.remote.servers.seaweedfs import SeaweedFS
from tests.tfrecord_example import example, ints
from tests.tfrecord_file import write_tfrecord

TREE = {"train": {f"{i}.jpg": bytes([i]) * 1000 for i in range(8)}}
RECORDS = [example(label=ints(bytes([number]))) for number in range(64)]
REMOTE = {
    document: lines
    for document in shown.DOCUMENTS
    if (lines := [line for line in shown.commands(document) if shown.is_remote(line)])
}


@pytest.fixture
def shell(
    tmp_path: Path, s3: SeaweedFS, bucket: str, web: Nginx, web_root: Path
) -> Iterator[Shell]:
    keys, store = s3.environment(), s3.store(bucket)
    shell = Shell(
        tmp_path,
        replaced={
            "s3://bucket": f"s3://{bucket}",
            "http://127.0.0.1:8333": s3.url,
            **{f"{name}=…": f"{name}={keys[name]}" for name in keys if name.startswith("AWS_")},
            "https://data.example.org": web.url,
            "http://proxy.example.org:8080": web.url,
            "processes:16": "processes:2",
        },
        environment={**keys, "FFRFS_ENDPOINT_URL": s3.url},
    )
    here = tmp_path / "here"
    for folder in (tmp_path / "imagenet", tmp_path / "more", here):
        make_folder(folder, TREE if folder != tmp_path / "more" else {"more": TREE})
    pack = here / "imagenet.ffr"
    pack_folder(tmp_path / "imagenet", pack)
    shutil.copy(pack, web_root)
    pack_folder(tmp_path / "imagenet", web_root / "imagenet21k", shards=2)
    obstore.put(store, "imagenet.ffr", pack.read_bytes())
    for name, content in TREE["train"].items():
        obstore.put(store, f"raw/{name}", content)
    (tmp_path / "shared" / "records").mkdir()
    for folder in (here, tmp_path / "shared" / "records"):
        write_tfrecord(folder / "train.tfrecord", RECORDS)
    try:
        yield shell
    finally:
        shell.close()
        shutil.rmtree(web_root / "imagenet21k")


@pytest.mark.parametrize("document", REMOTE)
def test_commands_of_a_document(shell: Shell, store: S3Store, document: str) -> None:
    """They run one after the other: each is a process, and some pack or mount."""
    for line in filter(shown.is_run, REMOTE[document]):
        if line == "ffrfs pack ~/imagenet s3://bucket/imagenet.ffr":  # others have mounted it
            shell.close()
            obstore.delete(store, "imagenet.ffr")
        shell.run(line)
