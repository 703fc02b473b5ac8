"""Each measured figure of a document is the published one, and none is without a source."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs import measured
from tests.house import sources

DECISIONS = Path("docs/decisions")
DOCUMENTS = [
    path for path in sources.files(".md", below="docs") if not path.is_relative_to(DECISIONS)
] + [Path("README.md")]
STATED = measured.stated()
NUMBER = r"(?<![\w.,-])\d(?:[\d,.]*\d)?"
# The unit of a set value is a word: 10 seconds. A measured one has a symbol, or a decimal point.
FIGURE = re.compile(
    rf"""
    {NUMBER}\ ?(?:
        (?:files|records|requests|reads|Examples|lookups)(?:/s|\ (?:a|per)\ second)
      | (?:[kMGT]B|[KMGT]iB|Gbit)/s | (?:µs|us|ms|s|min|h)\b | (?:times|x|\u00d7)(?!\w)
    )
    | \d\.\d+\ (?:seconds?|minutes?|hours?)\b
    | \b0\.\d+\ of\b
    | \btwice\ as\ (?:fast|long)\b | \bhalf\ the\ time\b
    """,
    re.VERBOSE,
)
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def sourced(document: str) -> list[str]:
    """Return the sentences of a document whose figures have a source."""
    return [
        *map(str, STATED.get(document, [])),
        *(text for text, _ in measured.DECIDED.get(document, [])),
        *measured.NOT_MEASURED.get(document, []),
    ]


def unsourced(text: str, known: list[str]) -> list[str]:
    text = FENCED.sub("", text)
    for each in known:
        text = text.replace(each, " … ")
    return [text[max(0, m.start() - 40) : m.end() + 20] for m in FIGURE.finditer(text)]


@pytest.mark.parametrize("document", DOCUMENTS, ids=str)
def test_sourced_figures_occur_in_the_document(document: Path) -> None:
    text = sources.text(document)
    assert [each for each in sourced(str(document)) if each not in text] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=str)
def test_every_figure_has_a_source(document: Path) -> None:
    assert unsourced(sources.text(document), sourced(str(document))) == []


def test_documents_named_by_sources_exist() -> None:
    named = {*STATED, *measured.DECIDED, *measured.NOT_MEASURED}
    assert named <= set(map(str, DOCUMENTS))


@pytest.mark.parametrize(
    ("text", "page"), [each for group in measured.DECIDED.values() for each in group]
)
def test_cited_decision_contains_the_figures(text: str, page: str) -> None:
    decision = sources.text(DECISIONS / page)
    assert [number for number in re.findall(NUMBER, text) if number not in decision] == []


@pytest.mark.parametrize(
    "text",
    [
        *("reads 9,100 files/s", "8,500 requests a second", "1.2 GB/s a core", "took 38 µs"),
        *("is mounted in 0.16 s", "9 times as fast", "1.25 x as long", "takes 2.6 minutes"),
        *("0.9 of a plain directory", "twice as fast", "| 2.7 s |"),
    ],
)
def test_figures_are_recognized(text: str) -> None:
    assert len(unsourced(text, [])) == 1
    assert unsourced(text, [text]) == []


@pytest.mark.parametrize(
    "text",
    ["within 10 seconds", "S12", "at most 4 MiB", "65,536 hints", "a file of 110 KB", "1.2.3"],
)
def test_other_numbers_are_not_taken_for_figures(text: str) -> None:
    assert unsourced(text, []) == []
