"""Archives for tests: of trees, and with members that no program would write."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import lzma
import tarfile
import time
import tracemalloc
import zipfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from tests.ffrecord_file import Tree
from tests.folder.folder_model import walk

TIME_S = 1_700_000_000

Member = tarfile.TarInfo | tuple[tarfile.TarInfo, bytes]


def file(name: str, content: bytes = b"", **fields: object) -> Member:
    return member(name, size=len(content), **fields), content


def member(name: str, type: bytes = tarfile.REGTYPE, **fields: object) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type = type
    info.mtime = TIME_S
    for field, value in fields.items():
        setattr(info, field, value)
    return info


def link(name: str, target: str, type: bytes = tarfile.SYMTYPE) -> Member:
    return member(name, type, linkname=target)


def tar_bytes(members: Iterable[Member], format: int = tarfile.GNU_FORMAT) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(
        fileobj=stream, mode="w", format=format, encoding="utf-8", errors="surrogateescape"
    ) as tar:
        for entry in members:
            if isinstance(entry, tuple):
                tar.addfile(entry[0], io.BytesIO(entry[1]))
            else:
                tar.addfile(entry)
    return stream.getvalue()


def tree_members(tree: Tree, prefix: str = "") -> list[Member]:
    return [
        member(prefix + path, tarfile.DIRTYPE, mode=0o755)
        if content is None
        else file(prefix + path, content)
        for path, content in walk(tree)
    ]


def zip_bytes(tree: Tree, compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", compression) as archive:
        for path, content in walk(tree):
            if content is None:
                archive.mkdir(path)
            else:
                info = zipfile.ZipInfo(path, time.gmtime(TIME_S)[:6])
                info.external_attr = 0o100640 << 16
                archive.writestr(info, content, compression)
    return stream.getvalue()


COMPRESSIONS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
}


def write_tree(path: Path, tree: Tree) -> Path:
    """Write the tree as an archive of the kind that the suffix of `path` names."""
    if path.suffix == ".zip":
        path.write_bytes(zip_bytes(tree))
    else:
        compress = COMPRESSIONS[path.suffix.replace(".tar", "")]
        path.write_bytes(compress(tar_bytes(tree_members(tree))))
    return path


@contextlib.contextmanager
def memory_below(size: int) -> Iterator[None]:
    """Assert that Python's memory stays below `size` inside the `with` block."""
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < size
