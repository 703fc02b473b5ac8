"""Conditions on features: `label == 3 and missing:image/text`, of Examples and SequenceExamples.

A feature with several values meets a comparison if one of them does, and `!=` if all of them do.
Values of SequenceExamples are those of all steps.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ffrfs.errors import OptionError
from ffrfs.tfrecord.examples.content import content, features_in
from ffrfs.tfrecord.examples.messages import SequenceExample

Condition = Callable[[SequenceExample], bool]

_PARTS = re.compile(r"(missing|has):(\S.*)|(.*?\S)\s*(==|!=|<=|>=|<|>)\s*(\S.*)")
_QUOTED = re.compile(r"""[=<>]\s*("[^"]*"|'[^']*')(?=\sand\s|\s*$)""")
_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}


def parse_conditions(text: str) -> list[Condition]:
    """Return the conditions for a record. Raises OptionError that shows how to write them."""
    hidden = _QUOTED.sub(lambda found: "x" * len(found[0]), text)
    cuts = [place for found in re.finditer(r"\sand\s", hidden) for place in found.span()]
    ends = zip([0, *cuts[1::2]], [*cuts[::2], len(text)], strict=True)
    return [_condition(text[first:end].strip()) for first, end in ends]


def _condition(text: str) -> Condition:
    parts = _PARTS.fullmatch(text)
    if parts is None:
        raise OptionError(
            f"{text[:40]!r} is not a condition; write for example label==3, label>2 and "
            'missing:image/text, or name=="cat"'
        )
    presence, feature, name, sign, value = parts.groups()
    if presence:
        return lambda message: bool(len(_values(message, feature))) == (presence == "has")
    return lambda message: _meets(_values(message, name), sign, value)


def _values(message: SequenceExample, name: str) -> Sequence[Any]:
    """Return all values of a feature; none if it is missing."""
    # An Example has its features where a SequenceExample has its context.
    features, lists = features_in(message)
    if name in features:
        return content(features[name])[1]
    if name in lists:
        return [value for step in lists[name].feature for value in content(step)[1]]
    return []


def _meets(values: Sequence[Any], sign: str, wanted: str) -> bool:
    if not values:
        return False
    compare = _COMPARISONS[sign]
    kind, limit = type(values[0]), _as_kind_of(values[0], wanted)
    if limit is None:
        return sign == "!="
    meets = (compare(value, limit) for value in values if isinstance(value, kind))
    return all(meets) if sign == "!=" else any(meets)


def _as_kind_of(value: object, wanted: str) -> object:
    """Return `wanted` as bytes, an integer or a float; None if it is no number but must be one."""
    if isinstance(value, bytes):
        is_quoted = len(wanted) > 1 and wanted[0] == wanted[-1] and wanted[0] in "\"'"
        return (wanted[1:-1] if is_quoted else wanted).encode("utf-8", "surrogateescape")
    try:
        return int(wanted)
    except ValueError:
        pass
    try:
        # Features are float32: 0.1 there is another number than 0.1 here.
        return float(np.float32(wanted)) if isinstance(value, float) else float(wanted)
    except ValueError:
        return None
