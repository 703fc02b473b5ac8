"""The values of a table's column, as pyarrow gives them, as features of Examples.

Not here: tables (table_source.py). Concurrency: one thread at a time.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any, Literal, TypeAlias

import numpy as np

from ffrfs.errors import FormatError
from ffrfs.printable import quoted
from ffrfs.tfrecord.examples.example import (
    Example,
    Feature,
    FeatureList,
    FeatureLists,
    Features,
    SequenceExample,
    make_feature,
)

# The treatment of doubles, as an Example keeps float32.
Float64: TypeAlias = Literal["cast", "refuse"]

_STEPS_DEPTH = 2  # for lists of lists
# Maps the type of a column to the list of a feature.
_KINDS = {"int64": "int64_list", "float": "float_list", "binary": "bytes_list"}


def row_message(
    features: dict[str, Feature | FeatureList], is_marked: bool
) -> Example | SequenceExample:
    lists = {name: each for name, each in features.items() if isinstance(each, FeatureList)}
    context = {name: each for name, each in features.items() if isinstance(each, Feature)}
    if not lists and not is_marked:
        return Example(features=Features(feature=context))
    return SequenceExample(
        context=Features(feature=context), feature_lists=FeatureLists(feature_list=lists)
    )


class ColumnReader:
    """Converts the values of a column to features."""

    def __init__(
        self,
        pyarrow: ModuleType,
        path: str,
        field: Any,  # noqa: ANN401
        float64: Float64,
    ) -> None:
        self.name: str = field.name
        self.depth = 0
        self._path = path
        types = pyarrow.types
        leaf = field.type
        while (
            types.is_list(leaf) or types.is_large_list(leaf) or types.is_fixed_size_list(leaf)
        ) and self.depth < _STEPS_DEPTH:
            leaf = leaf.value_type
            self.depth += 1
        if types.is_dictionary(leaf):
            leaf = leaf.value_type
        self.is_rounded = types.is_float64(leaf)
        if self.is_rounded and float64 == "refuse":
            raise self._refused("is double, and an Example keeps float32; float64=cast rounds it")
        if types.is_integer(leaf) or types.is_boolean(leaf):
            wanted = pyarrow.int64()
        elif types.is_floating(leaf):
            wanted = pyarrow.float32()
        elif types.is_null(leaf):
            wanted = leaf
        elif any(is_text(leaf) for is_text in _texts(types)):
            wanted = pyarrow.binary()
        else:
            raise self._refused(f"is of type {field.type}, which no feature of an Example is")
        self._kind = _KINDS.get(str(wanted))  # None: there are no values
        for _ in range(self.depth):
            wanted = pyarrow.list_(wanted)
        self._wanted = wanted
        self._has_nulls = False  # whether lists of the current batch contain nulls
        self._pyarrow = pyarrow

    def features(self, column: Any) -> list[Feature | FeatureList | None]:  # noqa: ANN401
        """Return the feature, or feature list, of each row; None for null.

        Raises FormatError for null among values, and for numbers that are not int64.
        """
        exact = self._flat(column) if self.is_rounded else None
        try:
            column = column.cast(self._wanted)
        except self._pyarrow.ArrowException as error:
            raise self._refused(f"cannot be read as {self._wanted} ({error})") from None
        inner = self._flat(column)
        if exact is not None and _infinite_count(exact) < _infinite_count(inner):
            raise self._refused("has a number that does not fit into a float32")
        self._has_nulls = bool(self.depth and inner.null_count)
        return [None if value is None else self._of(value) for value in column.to_pylist()]

    def _flat(self, column: Any) -> Any:  # noqa: ANN401
        for _ in range(self.depth):
            column = column.flatten()
        return column

    def _of(self, value: Any) -> Feature | FeatureList:  # noqa: ANN401
        if self.depth == _STEPS_DEPTH:
            if None in value:
                raise self._refused("has null as a step, which a feature list cannot hold")
            return FeatureList(feature=[self._one(step) for step in value])
        return self._one(value if self.depth else [value])

    def _one(self, values: list[Any]) -> Feature:
        if self._has_nulls and None in values:
            if len(values) > 1:
                raise self._refused("has null among values, which a feature cannot hold")
            return Feature()
        return Feature() if self._kind is None else make_feature(self._kind, values)

    def _refused(self, reason: str) -> FormatError:
        return FormatError.at(self._path, f"column {quoted(self.name)} {reason}")


def _infinite_count(values: Any) -> int:  # noqa: ANN401
    return int(np.isinf(values.to_numpy(zero_copy_only=False)).sum())


def _texts(types: Any) -> list[Any]:  # noqa: ANN401
    return [
        types.is_string,
        types.is_large_string,
        types.is_string_view,
        types.is_binary,
        types.is_large_binary,
        types.is_binary_view,
        types.is_fixed_size_binary,
    ]
