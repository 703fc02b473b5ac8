"""Writes manual pages and completions from the argument parser: `make manual`.

`python docs/write_manual.py [DIRECTORY]`; the default is ffrfs/service.
tests/service/test_manual.py compares the committed files with the output of this.
"""

from __future__ import annotations

import sys
from pathlib import Path

from manual.completions import completion_scripts
from manual.pages import manual_pages

from ffrfs.cli.main import make_parser


def main() -> None:
    committed = Path(__file__).parents[1] / "ffrfs" / "service"
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else committed
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
