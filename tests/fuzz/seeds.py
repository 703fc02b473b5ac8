"""The inputs that the fuzzers begin with: small and sound, from golden files or made here.

`write_seeds(folder, golden)` makes a folder for each target in `folder`. The first comment of a
target (pickle_fuzz.cc and so on) describes its inputs.
"""

from __future__ import annotations

import collections
import io
import pickle
import pickletools
import struct
from collections.abc import Iterator
from pathlib import Path

from tests.index_file import INDEX_MAGIC, Index, Link, Tree, indexed_pack

# Larger inputs make every run slow, and find no more.
SIZE_LIMIT = 16 << 10


def header_of(file: bytes) -> bytes:
    (count,) = struct.unpack_from("<q", file, 4)
    return file[: 12 + 12 * count]


def last_record(file: bytes) -> bytes:
    header = header_of(file)
    (offset,) = struct.unpack_from("<q", header, len(header) - 8)
    return file[offset:]


def frames(file: bytes) -> Iterator[bytes]:
    """Yield the frames of a TFRecord file: a length, its checksum, the record, its checksum."""
    at = 0
    while at < len(file):
        (length,) = struct.unpack_from("<Q", file, at)
        yield file[at : at + length + 16]
        at += length + 16


def pickles(golden: Path) -> Iterator[bytes]:
    yield last_record((golden / "packed.ffr").read_bytes())[len(INDEX_MAGIC) :]
    folder = collections.OrderedDict[str, object]
    deep = folder(x=0)
    for _ in range(30):
        deep = folder(d=deep)
    small = folder(a=folder([("x", 0), ("line\n\\", 255)]), empty=folder(), b=folder(x=256), ü=998)
    for tree in (small, deep, folder(), folder((f"{i:03}", i) for i in range(300))):
        for protocol in range(6):
            text = pickle.dumps(tree, protocol)
            yield text
            yield pickletools.optimize(text)
            file = io.BytesIO()
            pickle._Pickler(file, protocol).dump(tree)  # type: ignore[attr-defined]
            yield file.getvalue()


def headers(golden: Path) -> Iterator[bytes]:
    for path in (golden / "packed.ffr", golden / "plain.ffr", *golden.glob("sharded/*.ffr")):
        file = path.read_bytes()
        header = header_of(file)
        yield struct.pack("<Q", len(file)) + header
        yield struct.pack("<Q", len(file)) + bytes(4) + header[4:]  # as from an old writer
    yield struct.pack("<Q", 12) + bytes(12)


def tfrecords(golden: Path) -> Iterator[bytes]:
    for name in ("sequences", "raw"):
        parts = list(frames((golden / "tf" / f"{name}.tfrecord").read_bytes()))
        parts = [frame for frame in parts if len(frame) < SIZE_LIMIT]
        lines, at = "", 0
        for frame in parts:
            lines += f"{at} {len(frame)}\n"
            at += len(frame)
        for sidecar in (b"", lines.encode()):
            yield struct.pack("<I", at) + b"".join(parts) + sidecar


def examples(golden: Path) -> Iterator[bytes]:
    for name in ("examples", "sequences"):
        for frame in frames((golden / "tf" / f"{name}.tfrecord").read_bytes()):
            yield frame[12:-4]


TREES: list[Tree] = [
    {},
    {b"file": b"content"},
    {b"link": Link(b"../elsewhere"), b"empty": {}},
    {
        b"a": b"alpha",
        b"b": {b"c": {b"d": {b"e": b"deep", b"f": b""}}, b"link": Link(b"c")},
        b"g": {},
        b"h": {b"%d" % i: b"x" * i for i in range(20)},
        b"n" * 255: Link(b"t" * 100),
        "\u00fc".encode(): b"",
    },
]


def share_records(index: Index) -> None:
    """Give all files the same record, and make the pack one of a set of shards."""
    files = [inode for inode in index.inodes if inode.mode >> 12 == 8]
    for inode in files:
        inode.value = files[0].value
    index.set = bytes(range(16)) + struct.pack("<IIQ", 0, 1, 0)


def packs(golden: Path) -> Iterator[bytes]:
    for tree in TREES:
        yield indexed_pack(tree)
        yield indexed_pack(tree, share_records)


def requests(_: Path) -> Iterator[bytes]:
    """Yield messages of /dev/fuse: a header of 40 bytes, then the body for the opcode."""
    read = struct.pack("<QQIIQII", 0, 4096, 131072, 0, 0, 0, 0)
    bodies = {1: b"name\0", 3: bytes(16), 14: bytes(8), 15: read, 44: read, 17: b""}
    bodies |= {22: struct.pack("<II", 64, 0) + b"user.ffrfs.record\0", 23: bytes(8)}
    bodies |= {26: struct.pack("<16I", 7, 45, 1 << 17, 2**32 - 1, 2**32 - 1, *[0] * 11)}
    for opcode, body in bodies.items():
        header = struct.pack("<IIQQIIIHH", 40 + len(body), opcode, 2, 1, 0, 0, 1, 0, 0)
        yield header + body


MAKERS = {
    "example_fuzz": examples,
    "header_fuzz": headers,
    "index_fuzz": packs,
    "pickle_fuzz": pickles,
    "request_fuzz": requests,
    "tfrecord_fuzz": tfrecords,
    "union_fuzz": packs,
}


def write_seeds(folder: Path, golden: Path) -> None:
    for target, make in MAKERS.items():
        (folder / target).mkdir(parents=True, exist_ok=True)
        small = (seed for seed in make(golden) if len(seed) <= SIZE_LIMIT)
        for number, seed in enumerate(sorted(small)):
            (folder / target / f"{number:03}").write_bytes(seed)
