"""Makes completions from an argument parser, for bash, zsh and fish.

candidates.py has the candidates of each value, completions_*.py the scripts of each shell.
No state: safe from any thread.
"""

from __future__ import annotations

import argparse

from manual.arguments import read_parser
from manual.completions_bash import bash_script
from manual.completions_fish import fish_script
from manual.completions_zsh import zsh_script


def completion_scripts(parser: argparse.ArgumentParser) -> dict[str, str]:
    """Return the scripts by file name: `ffrfs.bash`, `_ffrfs` (zsh's) and `ffrfs.fish`.

    `parser` is that of the program, with all its commands.
    """
    program = read_parser(parser)
    return {
        "ffrfs.bash": bash_script(program),
        "_ffrfs": zsh_script(program),
        "ffrfs.fish": fish_script(program),
    }
