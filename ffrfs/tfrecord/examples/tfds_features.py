"""features.json of a TFDS directory: the features of its Examples, and how to parse them.

TensorFlow Datasets nests features (a Sequence of dictionaries of images) and writes them flat:
the names of nested ones are joined by "/", and a sequence of sequences has its values and its
row lengths under two names. Here each value of an Example has a TfdsFeature. Not here: splits and
files (ffrfs/tfrecord/tfds.py). The file is hostile. No state: safe from any thread.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeAlias

from ffrfs.errors import FormatError
from ffrfs.printable import quoted
from ffrfs.tfrecord.tfds import whole_number

FeatureShape: TypeAlias = tuple[int | None, ...]

# The limits of nesting, and of the number of features: no data set has more.
DEPTH_MAX = 64
FEATURES_MAX = 100_000
_NAME_LENGTH_MAX = 1000
_DIMENSIONS_MAX = 32
_VALUES_MAX = 1 << 31  # in an Example: it has fewer bytes
_INT64_MAX = (1 << 63) - 1

_VALUES, _LENGTHS = "ragged_flat_values", "ragged_row_lengths_{}"
_KINDS = {
    **dict.fromkeys(("bool", "int4", "int8", "int16", "int32", "int64"), "int64"),
    **dict.fromkeys(("uint4", "uint8", "uint16", "uint32", "uint64"), "int64"),
    **dict.fromkeys(("bfloat16", "float16", "float32", "float64"), "float32"),
    **dict.fromkeys(("string", "object", "str"), "bytes"),
}


class TfdsFeature(NamedTuple):
    """A value that features.json describes."""

    name: str  # "objects/bbox"
    kind: str  # TFDS's class, "BBoxFeature"
    dtype: str  # of the decoded value: "uint8" for an image; "" if only TFDS knows it
    shape: FeatureShape  # of the decoded value, with the lengths of the sequences around it
    encoding: str  # "png", "zlib"; "": the numbers are in the Example, or only TFDS knows it
    # In the Example: the type of the values ("int64", "float32", "bytes"), "" if only TFDS knows
    # it; the shape, with the sequences; and how many of its first dimensions are sequences.
    stored_type: str
    stored_shape: FeatureShape
    sequence_rank: int

    @property
    def text(self) -> str:
        """The declaration as text: "Image uint8 (28, 28, 1) png"."""
        shape = shape_text(self.shape) if self.shape else ""
        return " ".join(filter(None, [self.kind, self.dtype, shape, self.encoding]))

    @property
    def keys(self) -> list[str]:
        """The names in the Example; the first is that of the values."""
        if self.sequence_rank < 2:
            return [self.name]
        return [f"{self.name}/{_VALUES}", *self._length_keys]

    @property
    def _length_keys(self) -> list[str]:
        return [f"{self.name}/{_LENGTHS.format(i)}" for i in range(self.sequence_rank - 1)]

    def parsing(self) -> Any:  # noqa: ANN401 - one of three classes of features
        """Return the feature for parse_example(). Raises ValueError if there is none."""
        from ffrfs.tfrecord.parsing.features import (
            FixedLenFeature,
            FixedLenSequenceFeature,
            RaggedFeature,
        )

        if not self.stored_type:
            raise ValueError(f"feature {quoted(self.name)} is a {self.kind}, which is unknown here")
        if math.prod(filter(None, self.stored_shape)) > _VALUES_MAX:
            raise ValueError(f"feature {quoted(self.name)} has a shape of too many values")
        inner = _known(self.stored_shape[max(self.sequence_rank, 1) :])
        if self.sequence_rank > 1 and inner is not None:
            partitions: list[Any] = [RaggedFeature.RowLengths(key) for key in self._length_keys]
            partitions += [RaggedFeature.UniformRowLength(size) for size in inner]
            return RaggedFeature(self.stored_type, self.keys[0], partitions, "int64")
        whole = _known(self.stored_shape)
        if whole is not None:
            return FixedLenFeature(whole, self.stored_type)
        if inner is not None:
            return FixedLenSequenceFeature(inner, self.stored_type, allow_missing=True)
        raise ValueError(
            f"feature {quoted(self.name)} has the shape {shape_text(self.stored_shape)}, of which "
            "TFDS writes no Examples"
        )


def _known(shape: FeatureShape) -> tuple[int, ...] | None:
    """Return the shape if all of its sizes are known, else None."""
    sizes = tuple(size for size in shape if size is not None)
    return sizes if len(sizes) == len(shape) else None


def shape_text(shape: FeatureShape) -> str:
    """Return the shape as text: "(28, 28, ?)"."""
    sizes = ["?" if size is None else str(size) for size in shape]
    return f"({', '.join(sizes)}{',' if len(sizes) == 1 else ''})"


def parse_features(file: str, content: object) -> list[TfdsFeature]:
    """Return the features that the JSON `content` of the file describes, by name.

    A feature of a class that is unknown here has no dtype. Raises FormatError.
    """
    if not isinstance(content, dict) or "featuresDict" not in content:
        raise FormatError.at(
            file, "has no featuresDict; was it written by an old version of tensorflow_datasets?"
        )
    try:
        found: list[TfdsFeature] = []
        for feature in _flat("", content, 0):
            if len(found) == FEATURES_MAX:
                raise ValueError(f"has more than {FEATURES_MAX:,} features")
            _check_name(feature.name)
            found.append(feature)
        keys = [key for feature in found for key in {feature.name, *feature.keys}]
        if len(set(keys)) < len(keys):
            raise ValueError("two features have the same name in an Example")
        return sorted(found)
    except ValueError as error:
        raise FormatError.at(file, str(error)) from None


def _check_name(name: str) -> None:
    if len(name) > _NAME_LENGTH_MAX:
        raise ValueError(f"the name of feature {quoted(name[:100])}… is too long")
    if any("\ud800" <= char <= "\udfff" for char in name):  # which JSON can spell
        raise ValueError(f"the name of feature {quoted(name)} is not UTF-8")


def _flat(name: str, feature: object, depth: int) -> Iterator[TfdsFeature]:
    _check_name(name)
    fields = _object(feature, name)
    if depth == DEPTH_MAX:
        raise ValueError(f"features are nested more than {DEPTH_MAX} deep")
    if "featuresDict" in fields:
        members = _object(_object(fields["featuresDict"], name).get("features", {}), name)
        for member, inner in members.items():
            yield from _flat(f"{name}/{member}" if name else member, inner, depth + 1)
    elif "sequence" in fields:
        sequence = _object(fields["sequence"], name)
        length = _size(sequence.get("length", -1), name)
        for inner_feature in _flat(name, sequence.get("feature"), depth + 1):
            yield _in_sequence(inner_feature, length)
    elif "translation" in fields:
        languages = _object(fields["translation"], name).get("languages", [])
        if not isinstance(languages, list) or not all(isinstance(one, str) for one in languages):
            raise ValueError(f"feature {quoted(name)}: its languages are not a list of names")
        if _object(fields["translation"], name).get("variableLanguagesPerExample"):
            for part in ("language", "translation"):
                yield _in_sequence(_bytes(f"{name}/{part}", "Text", "string", (), ""), None)
        else:
            for language in languages:
                yield _bytes(f"{name}/{language}", "Text", "string", (), "")
    else:
        yield from _leaf(name, fields)


def _in_sequence(feature: TfdsFeature, length: int | None) -> TfdsFeature:
    if len(feature.shape) >= _DIMENSIONS_MAX:
        raise ValueError(f"feature {quoted(feature.name)} has too many dimensions")
    return feature._replace(
        shape=(length, *feature.shape),
        stored_shape=(length, *feature.stored_shape),
        sequence_rank=feature.sequence_rank + 1,
    )


def _leaf(name: str, fields: dict[str, Any]) -> Iterator[TfdsFeature]:
    python_class = fields.get("pythonClassName", "")
    kind = str(python_class).rpartition(".")[2]
    for key, make in _LEAVES.items():
        if key in fields:
            yield from make(name, kind, _object(fields[key], name))
            return
    yield TfdsFeature(name, kind or "feature", "", (), "", "", (), 0)


def _bytes(name: str, kind: str, dtype: str, shape: FeatureShape, encoding: str) -> TfdsFeature:
    return TfdsFeature(name, kind, dtype, shape, encoding, "bytes", (), 0)


def _class_label(name: str, kind: str, _: dict[str, Any]) -> Iterator[TfdsFeature]:
    yield TfdsFeature(name, kind, "int64", (), "", "int64", (), 0)


def _text(name: str, kind: str, _: dict[str, Any]) -> Iterator[TfdsFeature]:
    yield _bytes(name, kind, "string", (), "")


def _image(name: str, kind: str, fields: dict[str, Any]) -> Iterator[TfdsFeature]:
    encoding = _word(fields.get("encodingFormat", ""), name)
    yield _bytes(
        name, kind, _word(fields.get("dtype", "uint8"), name), _shape(fields, name), encoding
    )


def _video(name: str, kind: str, fields: dict[str, Any]) -> Iterator[TfdsFeature]:
    for image in _image(name, kind, fields):
        length, *frame = image.shape or (None,)
        yield _in_sequence(image._replace(shape=tuple(frame)), length)


def _tensor(name: str, kind: str, fields: dict[str, Any]) -> Iterator[TfdsFeature]:
    dtype, shape = _word(fields.get("dtype", ""), name), _shape(fields, name)
    encoding = _word(fields.get("encoding", ""), name).lower().replace("none", "")
    stored_type = "bytes" if encoding else _KINDS.get(dtype, "")
    stored_shape = () if encoding else shape
    if fields.get("lazyDecode"):  # a sound, stored as the bytes of its file
        stored_type, stored_shape = "bytes", ()
        encoding = _word(fields.get("fileFormat", ""), name)
    is_dynamic = shape.count(None) > 1
    value = f"{name}/value" if is_dynamic else name
    yield TfdsFeature(value, kind, dtype, shape, encoding, stored_type, stored_shape, 0)
    if is_dynamic:
        sizes = (len(shape),)
        yield TfdsFeature(f"{name}/shape", kind, "int32", sizes, "", "int64", sizes, 0)


_LEAVES: dict[str, Callable[[str, str, dict[str, Any]], Iterator[TfdsFeature]]] = {
    "tensor": _tensor,
    "classLabel": _class_label,
    "image": _image,
    "video": _video,
    "audio": _tensor,
    "boundingBox": _tensor,
    "text": _text,
}


def _shape(fields: dict[str, Any], name: str) -> FeatureShape:
    dimensions = _object(fields.get("shape", {}), name).get("dimensions", [])
    if not isinstance(dimensions, list) or len(dimensions) > _DIMENSIONS_MAX:
        raise ValueError(f"feature {quoted(name)}: its shape is not a list of sizes")
    return tuple(_size(size, name) for size in dimensions)


def _size(value: object, name: str) -> int | None:
    """Return a size; protobuf's JSON has an int64 as a string, and -1 for an unknown size."""
    size = whole_number(value)
    if size is None or not -1 <= size <= _INT64_MAX:
        raise ValueError(f"feature {quoted(name)}: {value!r:.40} is not a size")
    return None if size == -1 else size


def _word(value: object, name: str) -> str:
    if not isinstance(value, str):
        raise ValueError(f"feature {quoted(name)}: {value!r:.40} is not a name")
    return value


def _object(value: object, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        where = f"feature {quoted(name)}" if name else "features"
        raise ValueError(f"{where}: not a JSON object")
    return value
