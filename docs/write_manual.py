"""Writes docs/man and docs/completions out of the argument parser: `make manual`.

`python docs/write_manual.py [FOLDER]`, where FOLDER stands for docs. tests/service/test_manual.py
compares what is committed with what this writes.
"""

from __future__ import annotations

import sys
from pathlib import Path

from ffrfs.cli.main import make_parser
from ffrfs.service.completions import completion_scripts
from ffrfs.service.manual import manual_pages


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    parser = make_parser()
    for name, texts in {
        "man": manual_pages(parser),
        "completions": completion_scripts(parser),
    }.items():
        (folder / name).mkdir(exist_ok=True)
        for file, text in texts.items():
            (folder / name / file).write_text(text)


if __name__ == "__main__":
    main()
