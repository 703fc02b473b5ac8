"""The items of a data set of TFRecord files: the described features of a record.

The words of a description are those of the PyPI package `tfrecord`. Not here: reading
records (dataset.py, record_stream.py). Concurrency: functions without state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ffrfs.errors import FormatError
from ffrfs.tfrecord.parsing.features import AnyFeature, own_feature
from ffrfs.tfrecord.parsing.parse import parse_single_example, parse_single_sequence_example
from ffrfs.tfrecord.parsing.plan import FeatureMap

if TYPE_CHECKING:  # without protobuf, the other data sets work
    from ffrfs.tfrecord.examples.example import FeatureValue, SequenceExample

Description: TypeAlias = Sequence[str] | Mapping[str, str | AnyFeature]
Item: TypeAlias = dict[str, Any]
Items: TypeAlias = Item | tuple[Item, Item]
Kinds: TypeAlias = Mapping[str, str | None]

# The PyPI package `tfrecord` says "byte" and "int".
_KINDS = {"bytes": "bytes", "int64": "int64", "float": "float", "byte": "bytes", "int": "int64"}


def item_parser(
    description: Description | None, sequence_description: Description | None = None
) -> Callable[[bytes], Items]:
    """Return a function that makes an item of a record; it can be pickled.

    Without `sequence_description`: a dictionary of an Example's features. With it, also
    with an empty one: (context, feature lists) of a SequenceExample. The function raises
    FormatError for a record that does not fit. Raises TypeError or ValueError for an
    invalid description.
    """
    features = _features(description)
    if sequence_description is None:
        if isinstance(features, dict):
            return partial(_parsed_example, features=features)
        return partial(_named_example, kinds=_kinds(description))
    lists = _features(sequence_description)
    if isinstance(features, dict) or isinstance(lists, dict):
        if (description and features is None) or (sequence_description and lists is None):
            raise ValueError(
                'describe context and feature lists both by "bytes", "int64" or "float", or both '
                "by FixedLenFeature and its like"
            )
        return partial(_parsed_sequence, context=features or {}, lists=lists or {})
    return partial(_named_sequence, context=_kinds(description), lists=_kinds(sequence_description))


def _features(description: Description | None) -> dict[str, AnyFeature] | None:
    """Return the features of a description by FixedLenFeature and the like; None for others."""
    if not isinstance(description, Mapping):
        return None
    own = {name: own_feature(of) for name, of in description.items()}
    features = {name: of for name, of in own.items() if isinstance(of, AnyFeature)}
    return features if features and len(features) == len(description) else None


def _kinds(description: Description | None) -> Kinds:
    if isinstance(description, str | bytes):
        raise TypeError(f"a description is a list or a mapping of names, not {description!r}")
    if not isinstance(description, Mapping):
        return dict.fromkeys(description or ())
    kinds = {
        name: _KINDS[of] for name, of in description.items() if isinstance(of, str) and of in _KINDS
    }
    for name in description.keys() - kinds.keys():
        raise ValueError(
            f'feature "{name}": {description[name]!r} describes nothing here; describe all '
            'features by "bytes", "int64" or "float", or all by FixedLenFeature and its like'
        )
    return kinds


def _parsed_example(record: bytes, features: FeatureMap) -> Item:
    return _scalars_unwrapped(parse_single_example(record, features))


def _parsed_sequence(record: bytes, context: FeatureMap, lists: FeatureMap) -> tuple[Item, Item]:
    parsed, steps = parse_single_sequence_example(record, context, lists)
    return _scalars_unwrapped(parsed), dict(steps)


def _scalars_unwrapped(parsed: Mapping[str, Any]) -> Item:
    item: Item = dict(parsed)
    for name, value in item.items():
        if isinstance(value, np.ndarray) and value.dtype == object and value.shape == ():
            item[name] = value.item()
    return item


def _named_example(record: bytes, kinds: Kinds) -> Item:
    """Return the features that `kinds` names, in its order; if it names none, all of them."""
    from ffrfs.tfrecord.examples.example import to_dict

    message = _message(record)
    lists = message.feature_lists.feature_list
    if lists and not kinds:  # the caller wants all features, so these must not be lost
        names = ", ".join(f'"{name}"' for name in sorted(lists)[:3])
        more = f" and {len(lists) - 3} more" if len(lists) > 3 else ""
        raise FormatError(
            f"is a SequenceExample with feature lists ({names}{more}); give "
            "sequence_description=[] to read them, or name the features of the context to read "
            "no others"
        )
    message.ClearField("feature_lists")
    _keep(message.context.feature, kinds)
    return _chosen(to_dict(message)["context"], kinds)


def _named_sequence(record: bytes, context: Kinds, lists: Kinds) -> tuple[Item, Item]:
    from ffrfs.tfrecord.examples.example import to_dict

    message = _message(record)
    _keep(message.context.feature, context)
    _keep(message.feature_lists.feature_list, lists)
    values = to_dict(message)
    steps = values["feature_lists"]
    for name, kind in lists.items():
        if name not in steps:
            raise FormatError(f'feature list "{name}" is missing')
        for step in steps[name]:
            _check_kind(f'feature list "{name}"', step, kind)
    return _chosen(values["context"], context), {
        name: [_unwrapped(step) for step in steps[name]] for name in lists or sorted(steps)
    }


def _message(record: bytes) -> SequenceExample:
    from ffrfs.tfrecord.examples.content import message_of

    message = message_of(record)
    if message is None:
        raise FormatError("is not an Example")
    return message


def _keep(features: Any, kinds: Kinds) -> None:  # noqa: ANN401 - a map of protobuf's
    """Drop unrequested features, so that no arrays are made of them."""
    if kinds:
        for name in set(features) - kinds.keys():
            del features[name]


def _chosen(found: Mapping[str, FeatureValue], kinds: Kinds) -> Item:
    # A feature without a list counts as missing, as in TensorFlow.
    values = {name: value for name, value in found.items() if value is not None}
    for name, kind in kinds.items():
        if name not in values:
            raise FormatError(f'feature "{name}" is missing')
        _check_kind(f'feature "{name}"', values[name], kind)
    return {name: _unwrapped(values[name]) for name in kinds or sorted(values)}


def _check_kind(what: str, value: FeatureValue, kind: str | None) -> None:
    if value is None or kind is None:
        return
    found = "bytes"
    if isinstance(value, np.ndarray):
        found = "int64" if value.dtype == np.int64 else "float"
    if found != kind:
        raise FormatError(f'{what} is of kind "{found}", not "{kind}"')


def _unwrapped(value: FeatureValue) -> FeatureValue | bytes:
    return value[0] if isinstance(value, list) and len(value) == 1 else value
