"""Figures in Prometheus's text format, read by the parser of its own client library."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

Labels = frozenset[tuple[str, str]]


class Figures:
    """All samples of a text. Skips the test where the library is not installed."""

    def __init__(self, text: str) -> None:
        parser = pytest.importorskip("prometheus_client.parser")
        self.types: dict[str, str] = {}  # of each metric, by its name
        self._samples: dict[tuple[str, Labels], float] = {}
        for family in parser.text_string_to_metric_families(text):
            assert family.documentation
            assert family.name not in self.types
            self.types[family.name] = family.type
            for sample in family.samples:
                key = (sample.name, frozenset(sample.labels.items()))
                assert key not in self._samples
                self._samples[key] = sample.value

    def value(self, name: str, **labels: str) -> float:
        return self._samples[name, frozenset(labels.items())]

    def by_label(self, name: str, label: str, **labels: str) -> dict[str, float]:
        """Return the values of the samples with these labels, keyed by another label's value."""
        wanted = labels.items()
        return {
            dict(given)[label]: value
            for (found, given), value in self._samples.items()
            if found == name and wanted <= given
        }

    def histogram(self, name: str, **labels: str) -> Mapping[float, float]:
        """Return cumulative counts by bound, in order; check them as Prometheus requires."""
        buckets = {
            float(bound): count
            for bound, count in self.by_label(f"{name}_bucket", "le", **labels).items()
        }
        assert list(buckets) == sorted(buckets)
        assert list(buckets.values()) == sorted(buckets.values())
        assert buckets[float("inf")] == self.value(f"{name}_count", **labels)
        return buckets
