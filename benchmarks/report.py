"""The results: Markdown for people, on the terminal too, and JSON for programs.

Parts may come from several runs, so each part keeps the time, machine and amounts of its run.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any

from benchmarks import machine, packers
from benchmarks.contenders import AIO, ALONE, CEILING, HINTS, NATIVE, PACKERS, PYFUSE3, WARMED
from benchmarks.figure import Comparison, Figure, Findings, shown
from benchmarks.original import ORIGINAL
from benchmarks.plan import Plan
from benchmarks.remote import LOCAL
from benchmarks.remote_peers import RCLONE, S3FS

# Ratios are to the first of these that was measured.
OURS = (HINTS, NATIVE, PYFUSE3, packers.FFR)
COLUMNS = (
    *(*PACKERS, ALONE, WARMED, CEILING, HINTS, LOCAL, AIO, RCLONE, S3FS),
    *(packers.FFR, *packers.PROGRAMS, ORIGINAL),
)
VERDICTS = {None: "", True: "reached", False: "**missed**"}
Row = tuple[str, ...]


@dataclass(frozen=True)
class Run:
    """The facts that the parts of one run have in common."""

    time: str
    machine: dict[str, str | int | float]
    programs: dict[str, str]
    missing: dict[str, str]  # contenders that could not take part, with the reason
    plan: dict[str, int]  # its counts and sizes

    @classmethod
    def begin(cls, plan: Plan) -> Run:
        amounts = asdict(plan)
        del amounts["folder"], amounts["field"]
        return cls(
            time.strftime("%Y-%m-%d %H:%M %Z"),
            machine.describe(plan.folder),
            machine.versions(),
            plan.field.missing,
            amounts,
        )


@dataclass(frozen=True)
class Part:
    run: Run
    findings: Findings


Results = dict[str, Part]  # by the part's name


def as_json(results: Results) -> str:
    document = {
        name: {"run": asdict(part.run), **part.findings.as_json()} for name, part in results.items()
    }
    return json.dumps({"parts": document}, indent=1, ensure_ascii=False) + "\n"


def from_json(text: str) -> Results:
    parts: dict[str, dict[str, Any]] = json.loads(text)["parts"]
    return {
        name: Part(Run(**part["run"]), Findings.from_json(part)) for name, part in parts.items()
    }


def as_markdown(results: Results) -> str:
    return "\n".join(_lines(results)) + "\n"


def _lines(results: Results) -> Iterator[str]:
    yield "# Results\n"
    names_by_run: dict[str, list[str]] = {}
    for name, part in results.items():
        names_by_run.setdefault(_described(part.run), []).append(name)
    for run, names in names_by_run.items():
        yield f"**{', '.join(names).capitalize()}**: {run}\n"
    yield "## Figures and targets\n"
    figures = [figure for part in results.values() for figure in part.findings.figures]
    yield from _table([("", "measured", "target", "", ""), *map(_figure_row, figures)])
    for name, part in results.items():
        for data, group in groupby(part.findings.comparisons, lambda comparison: comparison.data):
            yield f"\n## {name.capitalize()}: {data}\n"
            yield "Medians; in brackets the median of the rounds' ratios to ours.\n"
            yield from _grid(list(group), part.run.missing)


def _described(run: Run) -> str:
    about = run.machine
    programs = ", ".join(f"{name} {version}" for name, version in run.programs.items())
    absent = [f"\n\n**{name} is missing**: {reason}." for name, reason in run.missing.items()]
    return (
        f"{run.time}. "
        f"{about['cpu']}, {about['cores']} cores, {about['memory_gb']} GB of memory, "
        f"{about['kernel']}, {about['file_system']} on {about['disk']}, "
        f"Python {about['python']}. {programs}. {_rounds(run.plan)}{''.join(absent)}"
    )


def _rounds(plan: Mapping[str, int]) -> str:
    return (
        f"{plan['rounds']} rounds of reading, opening, tfrecord and of mounts and shards of "
        f"indexes, {plan['long_rounds']} of all else; timed passes over mounts read "
        f"{plan['large_sample']:,} of the large files, {plan['small_sample']:,} of the small ones."
    )


def _figure_row(figure: Figure) -> Row:
    value = "-" if figure.value is None else f"{figure.value:.3g} {figure.unit}"
    return (figure.name, value, figure.target, VERDICTS[figure.reached], figure.note)


def _grid(comparisons: Sequence[Comparison], absent: Mapping[str, str]) -> Iterator[str]:
    """Yield a row for each comparison, with a column for each contender.

    Lines below say why a cell is empty, except for `absent` contenders, whose cells are all empty.
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
    cell = shown(median)
    ours = next((name for name in OURS if name in comparison.samples), name)
    ratio = comparison.ratio(name, ours) if name != ours else None
    return cell if ratio is None else f"{cell} ({ratio:.2f}x)"


def _table(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the lines in Markdown, with aligned columns for people who read the text itself."""
    widths = [max(3, *map(len, column)) for column in zip(*rows, strict=True)]
    for number, row in enumerate(rows):
        cells = [row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]
        yield f"| {' | '.join(cells)} |"
        if number == 0:
            rules = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
            yield f"| {' | '.join(rules)} |"
