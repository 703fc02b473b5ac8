"""What a part finds: comparisons of all contenders, and figures beside their targets."""

from __future__ import annotations

import statistics
from dataclasses import asdict, dataclass, field
from typing import Any

from benchmarks import measure


def shown(value: float) -> str:
    """Return the value as tables and pictures show it."""
    digits = 2 if value < 10 else 1 if value < 100 else 0
    return f"{value:,.{digits}f}"


@dataclass(frozen=True)
class Figure:
    """One number beside its target. If `value` is None, `note` says why."""

    name: str
    value: float | None
    unit: str  # "x" for a ratio
    at_least: float | None = None
    at_most: float | None = None
    note: str = ""
    samples: dict[str, list[float]] = field(default_factory=dict)

    @property
    def reached(self) -> bool | None:
        """Return None if there is no target, or if nothing was measured."""
        if self.value is None or (self.at_least is None and self.at_most is None):
            return None
        return (self.at_least is None or self.value >= self.at_least) and (
            self.at_most is None or self.value <= self.at_most
        )

    @property
    def target(self) -> str:
        if self.at_least is not None:
            return f"≥ {self.at_least:g} {self.unit}"
        return "" if self.at_most is None else f"≤ {self.at_most:g} {self.unit}"

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "reached": self.reached}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Figure:
        return cls(**{key: value for key, value in document.items() if key != "reached"})


@dataclass(frozen=True)
class Comparison:
    """One thing measured on every contender, a sample a round.

    Contenders without samples are in `missing`, with the reason.
    """

    data: str  # the data of the measurement: "20,000 files of 110 KB"
    name: str
    unit: str
    samples: dict[str, list[float]]
    missing: dict[str, str]

    def median(self, contender: str) -> float | None:
        values = self.samples.get(contender)
        return statistics.median(values) if values else None

    def ratio(self, dividend: str, divisor: str) -> float | None:
        if dividend not in self.samples or divisor not in self.samples:
            return None
        return measure.median_ratio(self.samples[dividend], self.samples[divisor])

    def versus(
        self,
        ours: str,
        theirs: str,
        at_least: float | None = None,
        at_most: float | None = None,
    ) -> Figure:
        """Return ours divided by theirs."""
        name = f"{self.data}, {self.name}, {ours} by {theirs}"
        note = self.why_missing(ours, theirs) or (
            f"{self.median(ours):.4g} and {self.median(theirs):.4g} {self.unit}"
        )
        return Figure(name, self.ratio(ours, theirs), "x", at_least, at_most, note)

    def of(
        self,
        ours: str,
        unit: str,
        divisor: float = 1,
        at_least: float | None = None,
        at_most: float | None = None,
    ) -> Figure:
        """Return ours alone, divided by a constant."""
        median = self.median(ours)
        value = None if median is None else median / divisor
        name = f"{self.data}, {self.name}, {ours}"
        return Figure(name, value, unit, at_least, at_most, self.why_missing(ours))

    def why_missing(self, *contenders: str) -> str:
        reasons = [
            f"{name}: {self.missing.get(name, 'not measured')}"
            for name in contenders
            if name not in self.samples
        ]
        return f"not measured: {'; '.join(reasons)}" if reasons else ""

    def as_json(self) -> dict[str, Any]:
        medians = {name: self.median(name) for name in self.samples}
        return {**asdict(self), "medians": medians}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Comparison:
        return cls(**{key: value for key, value in document.items() if key != "medians"})


@dataclass(frozen=True)
class Findings:
    figures: list[Figure]
    comparisons: list[Comparison] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        return {
            "figures": [figure.as_json() for figure in self.figures],
            "comparisons": [comparison.as_json() for comparison in self.comparisons],
        }

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Findings:
        return cls(
            [Figure.from_json(figure) for figure in document["figures"]],
            [Comparison.from_json(comparison) for comparison in document["comparisons"]],
        )
