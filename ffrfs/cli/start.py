"""The command `ffrfs` before main.py, whose imports take most of the time of a short command.

They are inside the function, so that Ctrl-C is one line then, too. Not here: how a command ends
otherwise.
"""

import sys


def main() -> int:
    try:
        from ffrfs.cli.main import main as run

        return run()
    except KeyboardInterrupt:
        print("ffrfs: interrupted", file=sys.stderr)
        return 130  # as in main.py
