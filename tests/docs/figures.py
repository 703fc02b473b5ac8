"""The metrics that queries use, and those of a mount: names, labels and the labels' values."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

_SAMPLE = re.compile(r"^(\w+)\{(.*)\} \S+$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)(=~|!~|!=|=)"((?:[^"\\]|\\.)*)"')
_METRIC = re.compile(r"\b((?:ffrfs|node)_\w+)\b(?:\{([^}]*)\})?")
_GROUPING = re.compile(r"\b(?:by|on|without|ignoring) *\(([^)]*)\)")


class Given:
    """The metrics in a text in Prometheus's format: each with its labels and all their values."""

    def __init__(self, text: str) -> None:
        self.labels: dict[str, dict[str, set[str]]] = {}
        for name, labels in _SAMPLE.findall(text):
            values = self.labels.setdefault(name, defaultdict(set))
            for label, _, value in _LABEL.findall(labels):
                values[label].add(value)

    def add(self, name: str, **labels: str) -> None:
        """Add a metric that a mount exports only sometimes."""
        self.labels.setdefault(name, {label: {value} for label, value in labels.items()})


@dataclass(frozen=True)
class Selector:
    metric: str
    labels: tuple[tuple[str, str, str], ...]  # name, operator, value


def selectors(query: str) -> Iterator[Selector]:
    """Yield each metric that a query names, with the labels that it selects."""
    for metric, labels in _METRIC.findall(query):
        yield Selector(metric, tuple(_LABEL.findall(labels)))


def grouping_labels(query: str) -> set[str]:
    """Return the labels in the query's by (...), on (...), without (...) and ignoring (...)."""
    return {
        label.strip()
        for labels in _GROUPING.findall(query)
        for label in labels.split(",")
        if label.strip()
    }
