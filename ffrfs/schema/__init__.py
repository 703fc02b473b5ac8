"""Schemas and statistics of TFRecord data sets, as in TensorFlow Data Validation.

Names and messages are TFDV's; TensorFlow is not needed, the package tensorflow-metadata is.
Concurrency: each module states its own rule; no state is shared.
"""

from __future__ import annotations

from ffrfs.schema.infer import infer_schema
from ffrfs.schema.messages import Anomalies, Schema, Statistics, load, store
from ffrfs.schema.statistics import Generated, generate_statistics
from ffrfs.schema.statistics_message import Sizes
from ffrfs.schema.validate import validate_statistics

__all__ = [
    "Anomalies",
    "Generated",
    "Schema",
    "Sizes",
    "Statistics",
    "generate_statistics",
    "infer_schema",
    "load",
    "store",
    "validate_statistics",
]
