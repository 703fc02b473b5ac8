"""`ffrfs info` of a TFDS directory: its splits, and the features that it declares."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from ffrfs.cli import output

if TYPE_CHECKING:
    from ffrfs.tfrecord.examples.tfds_features import TfdsFeature

# Name in an Example → its description in features.json.
Declared: TypeAlias = "dict[str, TfdsFeature]"

_WRONG_SHOWN_MAX = 10  # files


def declared_features(pack: str) -> Declared:
    """Return nothing if it is no TFDS directory or split, or has no features.json."""
    import os

    from ffrfs.tfrecord.examples.tfds_directory import FEATURES, open_tfds
    from ffrfs.tfrecord.tfds import find_tfds

    splits = find_tfds(pack)
    if splits is None or not os.path.lexists(os.path.join(splits.path, FEATURES)):
        return {}
    return {key: feature for feature in open_tfds(splits.path).declared for key in feature.keys}


def declared_text(feature: TfdsFeature | None) -> str:
    """Return the declaration as text: "Image uint8 (28, 28, 1) png"."""
    if feature is None:
        return "-"
    from ffrfs.tfrecord.examples.tfds_features import shape_text

    parts = [feature.kind, feature.dtype, shape_text(feature.shape) if feature.shape else ""]
    return " ".join(filter(None, [*parts, feature.encoding]))


def declared_fields(feature: TfdsFeature | None) -> dict[str, Any] | None:
    if feature is None:
        return None
    return {
        "feature": feature.name,
        "class": feature.kind,
        "dtype": feature.dtype or None,
        "shape": list(feature.shape),
        "encoding": feature.encoding or None,
    }


def show_splits(tfds: dict[str, Any]) -> None:
    """Print the splits, and the files that differ from dataset_info.json."""
    output.titled({"data set": f"{tfds['name']} {tfds['version']} (tensorflow_datasets)"})
    rows = [("split", "Examples", "records", "files", "missing files")]
    for split in tfds["splits"]:
        counts = [split["examples"], split["records"], split["shards"], len(split["missing"])]
        rows.append((split["name"], *(f"{count:,}" for count in counts)))
    output.lines(["", *output.table(rows)])
    wrong = [file for split in tfds["splits"] for file in split["wrong"]]
    for file in wrong[:_WRONG_SHOWN_MAX]:
        output.error(
            f"{file['file']}: has {output.count(file['records'], 'record')}, and "
            f"dataset_info.json says {file['examples']:,}"
        )
    if len(wrong) > _WRONG_SHOWN_MAX:
        output.error(f"{len(wrong) - _WRONG_SHOWN_MAX:,} more files have other numbers of records")
