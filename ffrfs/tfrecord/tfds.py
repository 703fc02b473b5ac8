"""TFDS directories: the splits and files of data sets of tensorflow_datasets.

    mnist/3.0.1/dataset_info.json                    the splits, and how many Examples each file has
    mnist/3.0.1/mnist-train.tfrecord-00000-of-00001

A split is named as if it were a directory, mnist/3.0.1/train: shards.py finds its files.
Not here: the features of the Examples (ffrfs/tfrecord/examples/tfds_directory.py).
The files are hostile. Concurrency: functions without state, and values.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass

from ffrfs.errors import FormatError, parse_reason
from ffrfs.printable import quoted
from ffrfs.remote.url import is_url

INFO = "dataset_info.json"
JSON_SIZE_MAX = 16 << 20  # bytes of a JSON file
SHARDS_MAX = 1_000_000  # of all splits
_SPLITS_MAX = 10_000
_NAME_SIZE_MAX = 255  # bytes; it names a directory of a mount
_TEMPLATE = "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}"
_TEMPLATE_LENGTH_MAX = 4096
_PATHS_SIZE_MAX = 512 << 20  # characters, of all files of all splits
_DIGITS_MIN = 5  # of a shard's number in its file's name
_INT64_MAX = (1 << 63) - 1


@dataclass(frozen=True)
class TfdsSplit:
    """A split. `shard_lengths`: Examples in each of the files, from dataset_info.json."""

    path: str  # of the split, DIR/NAME
    name: str
    shard_lengths: tuple[int, ...]
    num_bytes: int  # of the Examples, from dataset_info.json
    shard_paths: tuple[str, ...]  # they may be missing

    @property
    def num_examples(self) -> int:
        return sum(self.shard_lengths)

    def missing(self) -> list[str]:
        """Return the paths of missing files."""
        return [path for path in self.shard_paths if not os.path.exists(path)]

    def gap(self, missing: list[str]) -> str:
        """Return a text for a message that names files of `missing`, which must not be empty."""
        first = quoted(os.path.basename(missing[0]))
        others = f" and {len(missing) - 1:,} more" if len(missing) > 1 else ""
        is_or_are = "are" if others else "is"
        return f"of its {len(self.shard_paths):,} files, {first}{others} {is_or_are} missing"

    @property
    def files(self) -> list[str]:
        """The files, for TFRecordReader, RecordDataset and others that take a list.

        Raises FormatError if one is missing, or the split has none.
        """
        missing = self.missing()
        if missing:
            raise FormatError.at(self.path, self.gap(missing))
        if not self.shard_paths:
            raise FormatError.at(self.path, "the split has no files")
        return list(self.shard_paths)


@dataclass(frozen=True)
class TfdsSplits:
    """A data set of tensorflow_datasets, of one version and configuration."""

    path: str
    name: str
    version: str
    splits: dict[str, TfdsSplit]


def open_splits(path: str | os.PathLike[str]) -> TfdsSplits:
    """Return the splits of the TFDS directory `path`.

    Raises FormatError if it is no such directory, or damaged; OSError.
    """
    name = os.fspath(path)
    if is_url(name):
        raise FormatError.at(
            name, "TFDS directories at URLs are not supported; copy it, or read its TFRecord files"
        )
    file = os.path.join(name, INFO)
    if os.path.isdir(name) and not os.path.lexists(file):
        raise FormatError.at(
            name,
            f"has no {INFO}; a TFDS directory is that of a version, such as mnist/3.0.1",
        )
    directory = _open(name, file)
    if directory is None:
        raise FormatError.at(file, "its splits are not a list, as tensorflow_datasets writes it")
    return directory


def _open(name: str, file: str) -> TfdsSplits | None:
    """Return None if another library wrote the file (Hugging Face uses the name, too)."""
    content = load_json(file)
    try:
        if not isinstance(content, dict):
            raise ValueError("not a JSON object")
        if isinstance(content.get("splits"), dict):
            return None
        file_format = content.get("fileFormat", "tfrecord")
        if file_format != "tfrecord":
            raise ValueError(f"its files are {file_format!r:.40}; only tfrecord can be read")
        dataset = _text(content.get("name", ""), "the name of the data set")
        given = content.get("splits", [])
        if not isinstance(given, list) or len(given) > _SPLITS_MAX:
            raise ValueError(f"splits is not a list of at most {_SPLITS_MAX:,}")
        splits: list[TfdsSplit] = []
        shards_left, size_left = SHARDS_MAX, _PATHS_SIZE_MAX
        for each in given:
            splits.append(_split(name, dataset, each, shards_left, size_left))
            shards_left -= len(splits[-1].shard_lengths)
            size_left -= sum(map(len, splits[-1].shard_paths))
        by_name = {split.name: split for split in splits}
        if len(by_name) < len(splits):
            raise ValueError("two splits have the same name")
        return TfdsSplits(name, dataset, _text(content.get("version", ""), "version"), by_name)
    except ValueError as error:
        raise FormatError.at(file, str(error)) from None


def find_tfds(path: str) -> TfdsSplits | None:
    """Return the splits of the TFDS directory `path`, or of the split's; None if it is neither.

    Raises FormatError if it is damaged.
    """
    return _at(path) if os.path.lexists(path) else _at(os.path.dirname(path.rstrip("/")))


def _at(folder: str) -> TfdsSplits | None:
    file = os.path.join(folder, INFO)
    return _open(folder, file) if os.path.lexists(file) else None


def find_split(path: str) -> TfdsSplit | None:
    """Return the split that `path` names, DIR/SPLIT; None if DIR is no TFDS directory.

    Raises FormatError if the directory is damaged, or has no such split.
    """
    above, name = os.path.split(path.rstrip("/"))
    directory = _at(above) if name else None
    if directory is None:
        return None
    splits = directory.splits
    if name not in splits:
        names = ", ".join(map(quoted, splits)) or "none"
        raise FormatError.at(
            path, f"there is no such file or directory, and no such split ({names})"
        )
    return splits[name]


def load_json(file: str) -> object:
    """Return the content of a file of a TFDS directory. Raises FormatError, OSError."""
    if os.path.exists(file) and not os.path.isfile(file):  # opening a FIFO waits for its writer
        raise FormatError.at(file, "not a regular file")
    with open(file, "rb") as stream:
        text = stream.read(JSON_SIZE_MAX + 1)
    if len(text) > JSON_SIZE_MAX:
        raise FormatError.at(file, f"larger than {JSON_SIZE_MAX >> 20} MiB")
    try:
        content: object = json.loads(text)
    except RecursionError:
        raise FormatError.at(file, "the JSON is nested too deep") from None
    except ValueError as error:  # includes UnicodeDecodeError
        raise FormatError.at(file, f"not JSON ({parse_reason(error)})") from None
    return content


def _split(folder: str, dataset: str, given: object, shards_max: int, size_max: int) -> TfdsSplit:
    if not isinstance(given, dict):
        raise ValueError("a split is not a JSON object")
    name = _text(given.get("name", ""), "the name of a split")
    size = len(name.encode())
    if name in ("", ".", "..") or "/" in name or "\0" in name or size > _NAME_SIZE_MAX:
        raise ValueError(f"{quoted(name[:100])} is not a name of a split")
    lengths = given.get("shardLengths", [])
    if not isinstance(lengths, list) or len(lengths) > shards_max:
        raise ValueError(
            f"split {quoted(name)}: shardLengths is not a list, or the splits have more than a "
            "million files"
        )
    template = _text(given.get("filepathTemplate") or _TEMPLATE, "filepathTemplate")
    words = {"DATASET": dataset, "SPLIT": name, "FILEFORMAT": "tfrecord"}
    names = _FileNames(template, words, len(lengths))
    if len(lengths) * len(os.path.join(folder, names[0])) > size_max:
        raise ValueError(f"split {quoted(name)}: the names of its files are too long")
    files = [os.path.join(folder, names[number]) for number in range(len(lengths))]
    if len(set(files)) < len(files):
        raise ValueError(f"split {quoted(name)}: filepathTemplate gives all files the same name")
    return TfdsSplit(
        path=os.path.join(folder, name),
        name=name,
        shard_lengths=tuple(_count(length, name) for length in lengths),
        num_bytes=_count(given.get("numBytes", 0), name),
        shard_paths=tuple(files),
    )


class _FileNames:
    """The template of a split, filled in. Raises ValueError if it leads out of the directory."""

    def __init__(self, template: str, words: dict[str, str], count: int) -> None:
        self._digits = max(_DIGITS_MIN, len(str(count)))
        known = {**words, "NUM_SHARDS": f"{count:0{self._digits}}"}
        # In time that is proportional to its length, as below, whatever it is made of.
        used = {part.partition("{")[2] for part in template.split("}")[:-1] if "{" in part}
        is_known = used <= {*known, "SHARD_INDEX", "SHARD_X_OF_Y"}
        if not is_known or len(template) > _TEMPLATE_LENGTH_MAX:
            raise ValueError(f"filepathTemplate {template!r:.80} is not known")
        whole = template.replace("{SHARD_X_OF_Y}", "{SHARD_INDEX}-of-{NUM_SHARDS}")
        self._parts = [
            re.sub(r"\{([^{}]*)\}", lambda found: known[found[1]], part)
            for part in whole.split("{SHARD_INDEX}")
        ]
        path = self[0]
        if os.path.isabs(path) or ".." in path.split("/") or "\0" in path:
            raise ValueError(f"filepathTemplate {template!r:.80} leads out of the directory")

    def __getitem__(self, number: int) -> str:
        return f"{number:0{self._digits}}".join(self._parts)


def _count(value: object, name: str) -> int:
    number = whole_number(value)
    if number is None or not 0 <= number <= _INT64_MAX:
        raise ValueError(
            f"split {quoted(name)}: {value!r:.40} is not a number of Examples or bytes"
        )
    return number


def whole_number(value: object) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and len(value) <= 20 and value.removeprefix("-").isdecimal():
        return int(value)
    return None


def _text(value: object, what: str) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{what} is not a text")
    try:
        value.encode()
    except UnicodeEncodeError:  # a lone surrogate, which JSON can spell
        raise ValueError(f"{what} is not UTF-8") from None
    return value
