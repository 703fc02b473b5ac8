"""Makes the lines of a manual page in man(7), for groff and mandoc alike.

Text is plain. In it, options, `words in grave accents` and other pages, as in mount(8), become
bold; capital words that name a value, as in MOUNTPOINT, become italic if the page knows them.

No state: safe from any thread.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Collection, Iterable, Iterator

from manual.prose import Block, Example, Item

_SOURCE_WIDTH = 80
# Characters that mean something else to roff, or look different in a terminal's font.
_ESCAPES = {
    "\\": r"\e",
    "-": r"\-",
    "'": r"\(aq",
    "`": r"\(ga",
    "^": r"\(ha",
    "~": r"\(ti",
    '"': r"\(dq",
    "…": "...",
}
_MARKED = re.compile(
    r"""
    `(?P<quoted>[^`]+)`
    | (?<![\w./-]) (?P<option>--?[A-Za-z0-9][A-Za-z0-9-]*) (?![\w/])
    | (?P<page>[a-z][\w.@-]*) (?=\([1-8]\))
    | (?<![\w$/-]) (?P<name>[A-Z]+) (?![\w/=-])
    | (?P<plain>.)
    """,
    re.VERBOSE | re.DOTALL,
)


def page(lines: Iterable[str]) -> str:
    """Return the whole file; a heading begins a paragraph by itself."""
    kept: list[str] = []
    for line in lines:
        if not (line == ".PP" and kept[-1].startswith((".SH", ".SS"))):
            kept.append(line)
    return "\n".join(kept) + "\n"


def header(name: str, number: int, date: str) -> list[str]:
    title = f'.TH "{escape(name.upper())}" "{number}" "{date}" "ffrfs" "ffrfs"'
    return [r".\" Made out of the argument parser: change that, not this.", title]


def section(title: str) -> str:
    return f'.SH "{escape(title.upper())}"'


def subsection(title: str) -> str:
    return f'.SS "{escape(title)}"'


def paragraph(text: str, names: Collection[str] = ()) -> list[str]:
    return [".PP", *_filled(marked(text, names))]


def item(term: str, text: str, names: Collection[str] = ()) -> list[str]:
    """Return the lines of an item. `term` is roff already; `text` is plain."""
    return [".TP", _guarded(term), *_filled(marked(text, names) if text else r"\&")]


def example(lines: Collection[str]) -> list[str]:
    return [".PP", ".in +4n", ".nf", *(_guarded(escape(line)) for line in lines), ".fi", ".in"]


def block(found: Block, names: Collection[str] = ()) -> list[str]:
    if isinstance(found, Example):
        return example(found.lines)
    if isinstance(found, Item):
        return item(_term(found.term, names), found.text, names)
    return paragraph(found.text, names)


def bold(text: str) -> str:
    return rf"\fB{escape(text)}\fR"


def italic(text: str) -> str:
    return rf"\fI{escape(text)}\fR"


def escape(text: str) -> str:
    """Return roff that shows any `text` as it is; _guarded() handles its first character."""
    return "".join(
        _ESCAPES.get(char, char if char.isascii() else rf"\[u{ord(char):04X}]") for char in text
    )


def marked(text: str, names: Collection[str] = ()) -> str:
    """Return `text`, escaped, with its bold and italic parts marked."""
    return "".join(_marks(text, names))


def _marks(text: str, names: Collection[str]) -> Iterator[str]:
    for match in _MARKED.finditer(text):
        if match["quoted"] or match["option"] or match["page"]:
            yield bold(match["quoted"] or match["option"] or match["page"])
        elif match["name"] in names:
            yield italic(match["name"])
        else:
            yield escape(match[0])


def value(text: str) -> str:
    """Return the value of an option: bold words to be written as they are, and italic names."""
    return "".join(
        italic(word) if word.isupper() else bold(word) if word.isalnum() else escape(word)
        for word in re.findall(r"[A-Z]+|[a-z0-9]+|[^A-Za-z0-9]+", text)
    )


def _term(text: str, names: Collection[str]) -> str:
    """Return the term of an item: bold names, with a value after "=" in italics."""
    words = []
    for word in text.split(", "):
        name, equals, value = word.partition("=")
        words.append(bold(name + equals) + (italic(value) if value else ""))
    return ", ".join(words)


def _filled(text: str) -> list[str]:
    lines = textwrap.wrap(text, _SOURCE_WIDTH, break_long_words=False, break_on_hyphens=False)
    return [_guarded(line) for line in lines]


def _guarded(line: str) -> str:
    """Return the line so that it does not begin like a request of roff."""
    return rf"\&{line}" if line.startswith((".", "'")) else line
