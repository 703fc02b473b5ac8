"""Reason: one deviation from the schema, with TFDV's type and texts.

Concurrency: immutable.
"""

from __future__ import annotations

from typing import NamedTuple

from ffrfs.schema.messages import anomalies_pb2

Type = anomalies_pb2.AnomalyInfo


class Reason(NamedTuple):
    type: int  # of AnomalyInfo.Type
    short: str
    long: str = ""


def six_digits(number: float) -> str:
    return f"{number:.6g}"
