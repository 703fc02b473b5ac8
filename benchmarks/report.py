"""What was measured: Markdown for people, on the terminal too, and JSON for programs."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import groupby

from benchmarks import machine, packers
from benchmarks.contenders import NATIVE, PACKERS, PYFUSE3
from benchmarks.figure import Comparison, Figure, Findings
from benchmarks.plan import Plan

# Whom ratios are to: the first that was measured.
OURS = (NATIVE, PYFUSE3, packers.FFR)
COLUMNS = (*PACKERS, packers.FFR, *packers.PROGRAMS)
VERDICTS = {None: "", True: "reached", False: "**missed**"}
Row = tuple[str, ...]


@dataclass(frozen=True)
class Results:
    plan: Plan
    machine: dict[str, str | int | float]
    programs: dict[str, str]
    parts: Mapping[str, Findings]
    time: str = field(default_factory=lambda: time.strftime("%Y-%m-%d %H:%M %Z"))


def collect(plan: Plan, parts: Mapping[str, Findings]) -> Results:
    return Results(plan, machine.describe(plan.folder), machine.versions(), parts)


def as_json(results: Results) -> str:
    unshown = ("folder", "field")
    document = {
        "time": results.time,
        "machine": results.machine,
        "programs": results.programs,
        "missing": results.plan.field.missing,
        "plan": {key: value for key, value in asdict(results.plan).items() if key not in unshown},
        "parts": {part: findings.as_json() for part, findings in results.parts.items()},
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def as_markdown(results: Results) -> str:
    return "\n".join(_lines(results)) + "\n"


def pictures(files: Mapping[str, str]) -> str:
    """Markdown that shows them; their titles by file."""
    shown = [f"![{title}]({file})" for file, title in files.items()]
    return "\n\n".join(["\n## Pictures", *shown]) + "\n"


def _lines(results: Results) -> Iterator[str]:
    yield "# Results\n"
    yield f"{results.time}. {_described(results)}\n"
    for name, reason in results.plan.field.missing.items():
        yield f"**{name} is missing**: {reason}.\n"
    yield "## Figures and targets\n"
    figures = [figure for findings in results.parts.values() for figure in findings.figures]
    yield from _table([("", "measured", "target", "", ""), *map(_figure_row, figures)])
    for part, findings in results.parts.items():
        for data, group in groupby(findings.comparisons, lambda comparison: comparison.data):
            yield f"\n## {part.capitalize()}: {data}\n"
            yield "Medians; in brackets the median of the rounds' ratios to ours.\n"
            yield from _grid(list(group), results.plan.field.missing)


def _described(results: Results) -> str:
    about = results.machine
    programs = ", ".join(f"{name} {version}" for name, version in results.programs.items())
    return (
        f"{about['cpu']}, {about['cores']} cores, {about['memory_gb']} GB of memory, "
        f"{about['kernel']}, {about['file_system']} on {about['disk']}, "
        f"Python {about['python']}. {programs}. {_rounds(results.plan)}"
    )


def _rounds(plan: Plan) -> str:
    return (
        f"{plan.rounds} rounds of reading and opening, {plan.long_rounds} of all else; timed "
        f"passes over mounts read {plan.large_sample:,} of the large files, "
        f"{plan.small_sample:,} of the small ones."
    )


def _figure_row(figure: Figure) -> Row:
    value = "-" if figure.value is None else f"{figure.value:.3g} {figure.unit}"
    return (figure.name, value, figure.target, VERDICTS[figure.reached], figure.note)


def _grid(comparisons: Sequence[Comparison], absent: Mapping[str, str]) -> Iterator[str]:
    """A row for each comparison, a column for each contender.

    Why a cell is empty is said below, but for the `absent`, of whom all cells are.
    """
    known = {
        name for comparison in comparisons for name in {**comparison.samples, **comparison.missing}
    }
    columns = [name for name in COLUMNS if name in known]
    rows: list[Row] = [("", "", *columns)]
    for comparison in comparisons:
        cells = (_cell(comparison, name) for name in columns)
        rows.append((comparison.name, comparison.unit, *cells))
    yield from _table(rows)
    for comparison in comparisons:
        names_by_reason: dict[str, list[str]] = {}
        for name, reason in comparison.missing.items():
            if name not in absent:
                names_by_reason.setdefault(reason, []).append(name)
        for reason, names in names_by_reason.items():
            yield f"\n- {comparison.name}, {', '.join(names)}: {reason}."


def _cell(comparison: Comparison, name: str) -> str:
    median = comparison.median(name)
    if median is None:
        return "-"
    digits = 2 if median < 10 else 1 if median < 100 else 0
    cell = f"{median:,.{digits}f}"
    ours = next((name for name in OURS if name in comparison.samples), name)
    ratio = comparison.ratio(name, ours) if name != ours else None
    return cell if ratio is None else f"{cell} ({ratio:.2f}x)"


def _table(rows: Sequence[Row]) -> Iterator[str]:
    """In Markdown, the columns aligned for those who read it as it stands."""
    widths = [max(3, *map(len, column)) for column in zip(*rows, strict=True)]
    for number, row in enumerate(rows):
        cells = [row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]
        yield f"| {' | '.join(cells)} |"
        if number == 0:
            rules = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
            yield f"| {' | '.join(rules)} |"
