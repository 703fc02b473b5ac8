"""open_tfds: a TFDS directory with the features of its Examples, from features.json.

Not here: its splits and files (ffrfs/tfrecord/tfds.py). The file is hostile.
"""

from __future__ import annotations

import os
from functools import cached_property
from typing import Any

from ffrfs.errors import FormatError
from ffrfs.tfrecord.examples.tfds_features import TfdsFeature, parse_features
from ffrfs.tfrecord.tfds import TfdsSplits, load_json, open_splits

FEATURES = "features.json"


class TfdsDirectory(TfdsSplits):
    """A data set of tensorflow_datasets, of one version and configuration."""

    @cached_property
    def declared(self) -> list[TfdsFeature]:
        """The features of features.json, by name. Raises FormatError, OSError."""
        file = os.path.join(self.path, FEATURES)
        return parse_features(file, load_json(file))

    @property
    def features(self) -> dict[str, Any]:
        """The features for parse_example(), with TFDS's names; RaggedFeatures in sequences.

        Images, sounds and encoded tensors are bytes, as in the Example. Raises FormatError for
        a feature that only tensorflow_datasets knows.
        """
        declared = self.declared
        try:
            return {feature.name: feature.parsing() for feature in declared}
        except ValueError as error:
            raise FormatError.at(os.path.join(self.path, FEATURES), str(error)) from None


def open_tfds(path: str | os.PathLike[str]) -> TfdsDirectory:
    """Return the TFDS directory `path`; reads only dataset_info.json.

    Raises FormatError if it is no such directory, or damaged; OSError.
    """
    found = open_splits(path)
    return TfdsDirectory(found.path, found.name, found.version, found.splits)
