"""`ffrfs info` of a TFRecord data set or a TFDS directory, and of its records' features."""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias

from ffrfs.cli import output
from ffrfs.cli.head import records_of

if TYPE_CHECKING:
    from ffrfs.folder.progress import ProgressBar
    from ffrfs.tfrecord.examples.features_found import FeatureSchema, Range, Schema
    from ffrfs.tfrecord.examples.tfds_features import TfdsFeature
    from ffrfs.tfrecord.info import TFRecordInfo

# Name in an Example → its description in features.json.
Declared: TypeAlias = "dict[str, TfdsFeature]"

_WRONG_SHOWN_MAX = 10  # files


def show_tfrecord(pack: str, args: argparse.Namespace) -> dict[str, object] | None:
    """Print what `pack` holds, or return it for JSON."""
    from ffrfs.folder.info import tfrecord_fields
    from ffrfs.tfrecord.info import info
    from ffrfs.tfrecord.shards import shard_paths

    with output.progress_bar(pack, "records") as bar:
        found = info(shard_paths(pack), lambda records, size: bar(records, 0, size, 0))
    fields = tfrecord_fields(pack, found)
    if args.json:
        return fields
    output.titled(_tfrecord_lines(pack, found))
    if "tfds" in fields:
        _show_splits(fields["tfds"])
    return None


def _tfrecord_lines(pack: str, found: TFRecordInfo) -> dict[str, str]:
    compressions = sorted({file.compression.lower() or "none" for file in found.files})
    lines = {
        "file": pack,
        "kind": "TFRecord",
        "compression": ", ".join(compressions),
        "files": f"{len(found.files):,}",
        "records": f"{sum(file.record_count for file in found.files):,}",
        "bytes": f"{sum(file.byte_count for file in found.files):,}",
        "on disk": f"{sum(file.file_size for file in found.files):,}",
        "sidecars": f"{sum(file.has_sidecar for file in found.files):,}",
    }
    if found.sizes:
        least, median, most = found.sizes
        lines["record sizes"] = f"{least:,} to {most:,}, median {median:,}"
    return lines


def show_schema(pack: str, args: argparse.Namespace) -> dict[str, object] | None:
    """Print the features of its records, or return them for JSON."""
    from ffrfs.tfrecord.examples.features_found import infer_schema

    with output.progress_bar(pack, "records") as bar:
        records = islice(_records(pack, bar), args.limit)
        schema = infer_schema(records, pack)
    declared = _declared_features(pack)
    if args.json:
        return _schema_fields(pack, schema, declared)
    output.titled(_schema_lines(pack, schema))
    output.lines(_table(schema, declared))
    return None


def _records(pack: str, bar: ProgressBar) -> Iterator[bytes]:
    size = 0
    for count, record in enumerate(records_of(pack), 1):
        yield record
        size += len(record)
        bar(count, 0, size, 0)


def _schema_fields(pack: str, schema: Schema, declared: Declared) -> dict[str, object]:
    fields: dict[str, object] = {
        "file": pack,
        "examples": schema.example_count,
        "sequence_examples": schema.sequence_example_count,
        "others": schema.other_count,
        "features": [
            {
                "name": feature.name,
                "type": feature.kind,
                "is_sequence": feature.is_sequence,
                "present": feature.present_count,
                "fraction": feature.present_count / schema.record_count,
                "steps": _range_fields(feature.steps),
                "values": _range_fields(feature.values),
                "domain": _range_fields(feature.domain),
                "nan": feature.nan_count,
                **({"declared": _declared_fields(declared.get(feature.name))} if declared else {}),
            }
            for feature in schema.features
        ],
    }
    if declared:
        fields["missing"] = {
            name: _declared_fields(declared[name]) for name in _missing(schema, declared)
        }
    return fields


def _missing(schema: Schema, declared: Declared) -> list[str]:
    """Return the names that are declared, and that no record has."""
    found = {feature.name for feature in schema.features}
    return [name for name in declared if name not in found]


def _range_fields(found: Range | None) -> dict[str, object] | None:
    return {"min": _json_number(found.min), "max": _json_number(found.max)} if found else None


def _json_number(number: float) -> float | str:
    """Return the number, or its spelling in protobuf's JSON: JSON has no infinities."""
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    return number


def _schema_lines(pack: str, schema: Schema) -> dict[str, str]:
    lines = {"file": pack, "Examples": f"{schema.example_count:,}"}
    if schema.sequence_example_count:
        lines["SequenceExamples"] = f"{schema.sequence_example_count:,}"
    lines["other records"] = f"{schema.other_count:,}"
    return lines


def _table(schema: Schema, declared: Declared) -> Iterator[str]:
    if not schema.features and not declared:
        return
    from ffrfs.convert.example_text import shown_name

    rows = [("feature", "type", "presence", "steps", "values", "domain", "declared")]
    for feature in schema.features:
        text = declared[feature.name].text if feature.name in declared else "-"
        cells = _row(feature, schema.record_count)
        rows.append((shown_name(feature.name), *cells, text))
    for name in _missing(schema, declared):
        rows.append((shown_name(name), "-", "missing", "-", "-", "-", declared[name].text))
    empty = set() if declared else {"declared"}
    if not any(feature.is_sequence for feature in schema.features):
        empty.add("steps")
    columns = [column for column in zip(*rows, strict=True) if column[0] not in empty]
    yield ""
    yield from output.table(list(zip(*columns, strict=True)))


def _row(feature: FeatureSchema, record_count: int) -> tuple[str, str, str, str, str]:
    return (
        feature.kind,
        _presence(feature.present_count, record_count),
        _span(feature.steps),
        _span(feature.values),
        _domain(feature),
    )


def _presence(count: int, record_count: int) -> str:
    if count == record_count:
        return "required"
    return f"optional, {count:,} of {record_count:,} ({count / record_count:.1%})"


def _domain(feature: FeatureSchema) -> str:
    nan = f", {feature.nan_count:,} NaN" if feature.nan_count else ""
    if feature.kind == "float":
        return _span(feature.domain, "{:.6g}") + nan
    return _span(feature.domain) + (" bytes" if feature.kind == "bytes" and feature.domain else "")


def _span(found: Range | None, form: str = "{:,}") -> str:
    if found is None:
        return "-"
    least, most = form.format(found.min), form.format(found.max)
    return least if least == most else f"{least} to {most}"


def _declared_features(pack: str) -> Declared:
    """Return nothing if it is no TFDS directory or split, or has no features.json."""
    from ffrfs.tfrecord.examples.tfds_directory import FEATURES, open_tfds
    from ffrfs.tfrecord.tfds import find_tfds

    splits = find_tfds(pack)
    if splits is None or not os.path.lexists(os.path.join(splits.path, FEATURES)):
        return {}
    return {key: feature for feature in open_tfds(splits.path).declared for key in feature.keys}


def _declared_fields(feature: TfdsFeature | None) -> dict[str, Any] | None:
    if feature is None:
        return None
    return {
        "feature": feature.name,
        "class": feature.kind,
        "dtype": feature.dtype or None,
        "shape": list(feature.shape),
        "encoding": feature.encoding or None,
    }


def _show_splits(tfds: dict[str, Any]) -> None:
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
