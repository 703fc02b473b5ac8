"""WebDataset: tar files in which a sample is a run of members with one key.

    cat/1.jpg, cat/1.json          the sample cat/1, of any program: each member becomes a feature
                                   (jpg, json), and its key the feature __key__; and back
    000000012.example.json         any other Example, in the form of example_json.py; each of its
                                   bytes values is {"member": "image_encoded.jpg"}
    000000012.image_encoded.jpg    a bytes value, by the name of its feature and its content

So `webdataset` reads images and texts as such, and nothing is lost. Not here: reading tar
(ffrfs.packing), the files of a pack as samples (pack_samples.py). Concurrency: one thread at a
time.
"""

from __future__ import annotations

import json
import os
import re
import struct
import tarfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from io import BytesIO
from typing import BinaryIO, cast

from ffrfs.convert.example_json import (
    decode_base64,
    encode_base64,
    from_json,
    parse_record,
    to_json,
)
from ffrfs.convert.json_lines import not_an_example, parsed_json
from ffrfs.convert.kind import files_named
from ffrfs.convert.source import (
    NUMBER_DIGITS_MIN,
    OnError,
    Record,
    RecordSource,
    UnfitRecordError,
    bytes_example,
    size_of,
)
from ffrfs.errors import FfrfsError, FormatError
from ffrfs.files.kind import content_kind, text_of
from ffrfs.files.replacing import new_file
from ffrfs.packing.sources.archive_member import Kind
from ffrfs.packing.sources.tar_members import TarMembers
from ffrfs.printable import quoted
from ffrfs.tfrecord.examples.content import features_in
from ffrfs.tfrecord.examples.example import Example, Feature, feature_name

EXAMPLE = "example.json"
KEY = "__key__"
_BUFFER_SIZE = 1 << 20
_NAME_LENGTH_MAX = 60  # of a feature's name within a member's, which has at most 100 in all
# Members that `webdataset` steps over; and names that are none of a file below the root.
_STEPPED_OVER = re.compile(r"__[^/]*__(/|$)")
_UNSAFE = re.compile(r"/|(.*/)?\.\.?(/|$)|.*[\0\n]", re.DOTALL)
_NOT_UTF8 = re.compile("[\ud800-\udfff]")
# Bytes of a sample: protobuf takes no message of 2 GiB.
SAMPLE_LIMIT = (2 << 30) - (64 << 10)
# Further values of an Example are base64 in its example.json; a sample has no more members.
MEMBERS_MAX = 65536
# The exceptions of tarfile for damaged archives.
_DAMAGE_ERRORS = (tarfile.TarError, EOFError, ArithmeticError, ValueError, IndexError, struct.error)

# Maps the field "jpg" or "image.jpg" of a member "a/0001.image.jpg" to its bytes.
_Fields = dict[str, bytes]


def write_webdataset(
    path: str, records: Iterable[Record], numbers: Iterator[int], *, force: bool = False
) -> None:
    """Write the tar file `path`, with a sample for each record; `numbers` are keys for records
    without one.

    Raises UnfitRecordError for one that is no Example, and if two samples would become one.
    """
    last_key: str | None = None
    with new_file(path, force=force) as staged:
        output = cast(BinaryIO, staged)  # only write() is called
        with tarfile.open(
            mode="w|",
            fileobj=output,
            bufsize=_BUFFER_SIZE,
            format=tarfile.PAX_FORMAT,  # as USTAR, but for long names and others than ASCII
            encoding="utf-8",
        ) as tar:
            for record, number in zip(records, numbers, strict=False):
                key, fields = _sample(number, record)
                if key == last_key:
                    raise UnfitRecordError(
                        f"has the key of the record before it, {quoted(key)}, so the two would "
                        "become one sample"
                    )
                last_key = key
                for field, value in fields.items():
                    info = tarfile.TarInfo(f"{key}.{field}")
                    info.size = len(value)
                    tar.addfile(info, BytesIO(value))
                tar.members.clear()  # type: ignore[attr-defined] # it keeps them all


def name_fault(key: str, field: str) -> str | None:
    """Return why no member can have that key and that field; None if one can."""
    name = f"{key}.{field}"
    if split_name(name) != (key, field) or not key or key.endswith("/"):
        return "has no extension, so it belongs to no sample"
    if _NOT_UTF8.search(field):
        return "has an extension that is not UTF-8"
    if field == KEY:
        return "is the name of the key of a sample"
    if field == EXAMPLE:
        return "is a name that ffrfs gives to the Example of a sample"
    if _STEPPED_OVER.match(name) or _UNSAFE.match(name.removeprefix("./")):
        return "is hidden from WebDataset by its name"
    return None


def _sample(number: int, record: Record) -> tuple[str, _Fields]:
    message = parse_record(record)
    if message is None:
        raise not_an_example()
    features, _ = features_in(message)
    values = _single_values(features)
    key = os.fsdecode(values.pop(KEY, b""))
    if name_fault(key, "txt"):
        key = f"{number:0{NUMBER_DIGITS_MIN}}"
    elif (
        isinstance(message, Example)
        and len(features) - 1 == len({field.lower() for field in values}) > 0
        and not any(name_fault(key, field) for field in values)
    ):
        return key, values
    fields: _Fields = {EXAMPLE: b""}  # it must be the first member
    counts: Counter[str] = Counter()

    def encode(name: str, value: bytes) -> object:
        if len(fields) == MEMBERS_MAX:
            return encode_base64(value)
        field = _field_name(name, value, counts)
        fields[field] = value
        return {"member": field}

    fields[EXAMPLE] = json.dumps(to_json(message, encode), ensure_ascii=False).encode()
    return key, fields


def _single_values(features: Mapping[str, Feature]) -> dict[str, bytes]:
    """Return the value of each feature of bytes that has exactly one."""
    lists = {name: feature.bytes_list.value for name, feature in features.items()}
    return {name: values[0] for name, values in lists.items() if len(values) == 1}


def _field_name(name: str, value: bytes, counts: Counter[str]) -> str:
    """Return a name that is unique in the sample; in small letters, as readers make them."""
    base = re.sub(r"[^a-z0-9_-]", "_", name.lower())[:_NAME_LENGTH_MAX] or "_"
    counts[base] += 1
    kind = content_kind(value)
    extension = kind.extension if kind else "bin" if text_of(value) is None else "txt"
    number = f".{counts[base] - 1}" if counts[base] > 1 else ""
    return f"{base}{number}.{extension}"


class WebDatasetSource(RecordSource):
    """The samples of a tar file, or of a directory of them in the order of their names.

    A sample whose example.json is wrong raises FormatError, or with "skip" is left out and
    counted. A damaged archive ends the reading.
    """

    def __init__(self, path: str, on_error: OnError) -> None:
        super().__init__(path, on_error)
        self._files = files_named(path, ".tar")
        self._last = path, ""  # the file and the key of the sample that was yielded last
        self.size_bytes = sum(map(size_of, self._files))

    def records(self) -> Iterator[Record]:
        self.skipped_count = 0
        for file in self._files:
            with open(file, "rb") as stream:
                for key, fields in _samples(file, stream):
                    try:
                        record = _serialized(key, fields)
                    except ValueError as error:
                        if self._on_error == "raise":
                            reason = f"sample {quoted(key)}: {error}"
                            raise FormatError.at(file, reason) from None
                        self.skipped_count += 1
                    else:
                        self._last = file, key
                        yield record

    def place(self) -> str:
        file, key = self._last
        return f"{file}: sample {quoted(key)}"


def _samples(file: str, stream: BinaryIO) -> Iterator[tuple[str, _Fields]]:
    """Yield each key with its fields. Raises FormatError, PackError for a damaged archive."""
    try:
        yield from _read_samples(file, stream)
    except FfrfsError:
        raise
    except _DAMAGE_ERRORS as error:
        raise FormatError.at(file, f"not a tar archive, or damaged ({error})") from None


def _read_samples(file: str, stream: BinaryIO) -> Iterator[tuple[str, _Fields]]:
    key: str | None = None
    fields: _Fields = {}
    size = 0
    members = TarMembers(file, stream)
    for member in members:
        if member.kind is Kind.FOLDER:
            continue
        if member.kind is not Kind.FILE:
            raise FormatError.at(
                file, f"{quoted(member.name)} is not a file, so it belongs to no sample"
            )
        split = split_name(member.name)
        if split is None:
            raise FormatError.at(
                file, f"{quoted(member.name)} has no extension, so it belongs to no sample"
            )
        of, field = split
        if of != key:
            if key is not None:
                yield key, fields
            key, fields, size = of, {}, 0
        size += member.size
        if size > SAMPLE_LIMIT or len(fields) == MEMBERS_MAX:
            raise FormatError.at(file, f"sample {quoted(of)} is too large for an Example")
        if field in fields:
            raise FormatError.at(file, f"{quoted(member.name)} comes twice")
        fields[field] = b"".join(members.pieces())
        if len(fields[field]) != member.size:
            raise FormatError.at(file, f"{quoted(member.name)} is cut off")
    if key is not None:
        yield key, fields


def split_name(name: str) -> tuple[str, str] | None:
    """Split a name as WebDataset does: "a/1.x.jpg" → "a/1" and "x.jpg"."""
    folder, slash, base = name.rpartition("/")
    key, dot, field = base.partition(".")
    return (f"{folder}{slash}{key}", field) if dot and field else None


def _serialized(key: str, fields: _Fields) -> bytes:
    """Return the Example of a sample. Raises ValueError."""
    text = fields.pop(EXAMPLE, None)
    if text is None:
        if KEY in fields:
            raise ValueError(f"has a member named {KEY}, which is the name of its key")
        return bytes_example(
            {KEY: os.fsencode(key), **{feature_name(name): fields[name] for name in fields}}
        )

    def decode(value: object) -> bytes:
        if not isinstance(value, dict):
            return decode_base64(value)
        member = value.get("member")
        if not isinstance(member, str) or member not in fields:
            raise ValueError(f"{EXAMPLE} names a member that is not there")
        return fields.pop(member)

    message = from_json(parsed_json(text), decode)
    if fields:
        raise ValueError(f"its {EXAMPLE} does not name {quoted(next(iter(fields)))}")
    return message.SerializeToString(deterministic=True)
